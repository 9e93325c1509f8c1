// Every fault of the matrix. What a fault does not apply to is listed with the reason.
import { answering } from "./answering.js";
import { breaking } from "./breaking.js";
import type { Plan } from "./cell.js";
import type { MatrixClient } from "./clients.js";
import { hanging } from "./hanging.js";

export interface Fault {
  /** The requirements that its cells show. */
  readonly ids: string;
  readonly name: string;
  /** The cell for this client, or the reason why there is none. */
  plan(client: MatrixClient): Plan | string;
}

export const faults: readonly Fault[] = [...hanging, ...breaking, ...answering];
