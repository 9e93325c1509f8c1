export { bindFetch, type BindFetchOptions } from "./bind-fetch.js";
