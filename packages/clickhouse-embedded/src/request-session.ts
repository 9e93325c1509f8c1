import { fromEngine } from "./clickhouse-errors.js";
import type { EngineSession } from "./engine.js";
import type { QueryRequest } from "./request.js";
import { identifier, literal, setStatement } from "./settings-sql.js";

/**
 * Gives a session the database, settings and parameters of one request. Returns what gives a named session its own back: those of a request
 * hold for that request only. A session of one request is thrown away, so nothing is given back.
 */
export async function enterSession(
  session: EngineSession,
  request: QueryRequest,
  settings: ReadonlyMap<string, string>,
  changesDatabase: boolean,
): Promise<() => Promise<void>> {
  const before = request.session === null ? null : await currentState(session, [...settings.keys()]);
  const leave = async (): Promise<void> => {
    if (before === null) return;
    if (request.database !== null && !changesDatabase) await session.execute(`USE ${identifier(before.database)}`);
    const back = setStatement(before.settings, new Map());
    if (back !== null) await session.execute(back);
  };
  try {
    if (request.database !== null) await session.execute(`USE ${identifier(request.database)}`);
    const set = setStatement(settings, request.params);
    if (set !== null) await session.execute(set);
    return leave;
  } catch (error) {
    await leave();
    throw fromEngine(error);
  }
}

type State = { readonly database: string; readonly settings: ReadonlyMap<string, string> };

async function currentState(session: EngineSession, names: readonly string[]): Promise<State> {
  const sql =
    `SELECT currentDatabase() AS database, ` +
    `(SELECT groupArray((name, value)) FROM system.settings WHERE name IN (${names.map(literal).join(", ")})) AS settings`;
  const r = await session.execute(sql, "JSONEachRow");
  const state = JSON.parse(Buffer.from(r.bytes).toString("utf8")) as { database: string; settings: [string, string][] };
  return { database: state.database, settings: new Map(state.settings) };
}
