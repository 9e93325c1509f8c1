export { bind, type AwsClient, type BindOptions } from "./bind.js";
