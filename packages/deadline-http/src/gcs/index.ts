export { bind, type BindOptions } from "./bind.js";
