import type { CaptureSchema } from "@holdfast/pack-format";
import type { CaptureServiceConfig } from "./config.js";
import type { CaptureService } from "./service-types.js";
import { settingsOf } from "./settings.js";

export function createCaptureService<S extends CaptureSchema>(config: CaptureServiceConfig<S>): CaptureService<S> {
  settingsOf(config);
  throw new Error("not built yet");
}
