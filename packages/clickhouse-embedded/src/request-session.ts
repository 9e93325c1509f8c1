import { fromEngine } from "./clickhouse-errors.js";
import type { EngineSession } from "./engine.js";
import { engineLimit, queryBytesDefault, queryLimit, sizeSetting } from "./query-size.js";
import type { QueryRequest } from "./request.js";
import { identifier, literal, setStatement } from "./settings-sql.js";

/** What a session gets for one request. */
export type SessionUse = {
  readonly request: QueryRequest;
  readonly settings: ReadonlyMap<string, string>;
  /** The bytes of the caller's text that `max_query_size` bounds. */
  readonly textBytes: number;
  /** The statement is a USE, whose effect is to stay. */
  readonly changesDatabase: boolean;
};

/**
 * Gives a session the database, settings and parameters of one request. Returns what gives a named session its own back: those of a request
 * hold for that request only. A session of one request is thrown away, so nothing is given back. A QueryError 62 when the caller's text is
 * longer than the limit that holds for it.
 */
export async function enterSession(session: EngineSession, use: SessionUse): Promise<() => Promise<void>> {
  const { request } = use;
  const before = request.session === null ? null : await currentState(session, [...use.settings.keys(), sizeSetting]);
  const sizeBefore = before?.settings.get(sizeSetting) ?? String(queryBytesDefault);
  const settings = new Map(use.settings);
  const size = engineLimit(settings.get(sizeSetting) ?? sizeBefore, use.textBytes);
  if (size !== null) settings.set(sizeSetting, size);
  let set = setStatement(settings, request.params);
  let raised: number | null = null;
  if (set !== null && Buffer.byteLength(set) > queryLimit(sizeBefore)) {
    // Parameters go as a statement, which the limit of queries would bound: it is lifted for that one, which sets it again.
    settings.set(sizeSetting, settings.get(sizeSetting) ?? sizeBefore);
    set = setStatement(settings, request.params);
    raised = Buffer.byteLength(set ?? "");
  }
  const leave = async (): Promise<void> => {
    if (before === null) return;
    if (request.database !== null && !use.changesDatabase) {
      await session.execute(`USE ${identifier(before.database)}`);
    }
    const own = new Map([...before.settings].filter(([name]) => settings.has(name)));
    const back = setStatement(own, new Map());
    if (back !== null) await session.execute(back);
  };
  try {
    if (request.database !== null) await session.execute(`USE ${identifier(request.database)}`);
    if (raised !== null) await session.execute(`SET ${sizeSetting}=${raised}`);
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
