import { createIndexer, type Indexer } from "@holdfast/indexer";
import { createLeaseKeeper, type LeaseKeeper } from "@holdfast/lease-core";
import type { ObjectStore } from "@holdfast/object-store";
import { createClients, type Clients } from "./clients.js";
import { leaseOptions, type Settings } from "./settings.js";

/** The catalog's side of a running service: its tables are there, and its keeper runs. */
export type Catalog = {
  readonly keeper: LeaseKeeper;
  readonly indexer: Indexer;
  /** Ends the keeper, which gives the lease back, and the connections after it. */
  close(): Promise<void>;
};

/**
 * Connects, makes or checks the tables, and takes the lease: a publisher waits for it as long as lease.startWaitMs and fails then,
 * a standby asks once and goes on without. Null in the role capture-only.
 */
export async function openCatalog(
  settings: Settings,
  store: ObjectStore,
  signal: AbortSignal,
): Promise<Catalog | null> {
  if (settings.catalog === null) return null;
  const clients = createClients(settings.catalog);
  const { keeper, indexer } = assemble(settings, settings.catalog, clients, store);
  const close = async (): Promise<void> => {
    await keeper.stop();
    await clients.close();
  };
  try {
    await indexer.ensureSchema({ signal });
    if (settings.role === "publisher") await keeper.acquire({ signal });
    else await keeper.tryAcquire();
    return { keeper, indexer, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function assemble(
  settings: Settings,
  catalog: NonNullable<Settings["catalog"]>,
  clients: Clients,
  store: ObjectStore,
): Pick<Catalog, "keeper" | "indexer"> {
  const { schema, clock, role, index, reconcile } = settings;
  const { requestTimeoutMs } = catalog;
  const common = {
    clock,
    requestTimeoutMs,
    ...(catalog.database === undefined ? {} : { database: catalog.database }),
    ...(settings.random === undefined ? {} : { random: settings.random }),
  };
  const { holder } = settings.lease;
  const keeper = createLeaseKeeper({
    ...common,
    client: clients.lease,
    name: schema.name,
    lease: leaseOptions(settings.lease),
    ...(holder === undefined ? {} : { holder }),
    reacquire: role === "standby" ? "keep-trying" : "latch",
  });
  const indexer = createIndexer({
    ...common,
    client: clients.catalog,
    schema,
    store,
    keeper,
    limits: index,
    reconcile: { fullIntervalMs: reconcile.fullIntervalMs },
  });
  return { keeper, indexer };
}
