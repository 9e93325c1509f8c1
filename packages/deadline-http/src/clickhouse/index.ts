export { bind, type BindOptions } from "./bind.js";
export { capSeconds, type Attempt } from "./settings.js";
