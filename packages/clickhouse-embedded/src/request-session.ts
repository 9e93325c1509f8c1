import { fromEngine } from "./clickhouse-errors.js";
import type { EngineSession } from "./engine.js";
import type { QueryRequest } from "./request.js";
import { identifier, literal, setStatement } from "./settings-sql.js";

/**
 * Gives a session the database, settings and parameters of one request. Returns what gives a named session its own settings back: those of
 * a request hold for that request only. A session of one request is thrown away, so nothing is given back.
 */
export async function enterSession(
  session: EngineSession,
  request: QueryRequest,
  settings: ReadonlyMap<string, string>,
): Promise<() => Promise<void>> {
  try {
    const before = request.session === null ? null : await currentSettings(session, [...settings.keys()]);
    if (request.database !== null) await session.execute(`USE ${identifier(request.database)}`);
    const set = setStatement(settings, request.params);
    if (set !== null) await session.execute(set);
    return async () => {
      const back = before === null ? null : setStatement(before, new Map());
      if (back !== null) await session.execute(back);
    };
  } catch (error) {
    throw fromEngine(error);
  }
}

async function currentSettings(session: EngineSession, names: readonly string[]): Promise<Map<string, string>> {
  const sql = `SELECT name, value FROM system.settings WHERE name IN (${names.map(literal).join(", ")})`;
  const r = await session.execute(sql, "JSONCompact");
  const { data } = JSON.parse(Buffer.from(r.bytes).toString("utf8")) as { data: [string, string][] };
  return new Map(data);
}
