// The arrows between packages. A package may import at run time what its row names and nothing else: no deep imports,
// no cycles, no undeclared dependencies. The table is the one of docs/architecture.md.
const runtime = {
  "deadline-http": [],
  "object-store": [],
  "pack-format": [],
  "lease-core": ["deadline-http"],
  indexer: ["deadline-http", "lease-core", "object-store", "pack-format"],
  reader: ["deadline-http", "object-store", "pack-format", "indexer"],
  "capture-service": ["deadline-http", "lease-core", "object-store", "pack-format", "indexer"],
  "storage-fs": ["object-store"],
  "storage-s3": ["object-store", "deadline-http"],
  "storage-gcs": ["object-store", "deadline-http"],
  "storage-git": ["object-store", "deadline-http"],
  testkit: ["object-store"],
  "clickhouse-embedded": [],
  cli: [
    "deadline-http",
    "lease-core",
    "object-store",
    "pack-format",
    "indexer",
    "reader",
    "capture-service",
    "storage-fs",
    "storage-s3",
    "storage-gcs",
    "clickhouse-embedded",
  ],
};
const names = Object.keys(runtime);
const alternatives = (list) => `(${list.join("|")})`;

const arrows = names.map((name) => ({
  name: `arrows-of-${name}`,
  severity: "error",
  comment: `${name} may import at run time: ${runtime[name].join(", ") || "nothing of ours"}`,
  from: { path: `^packages/${name}/src/` },
  to: { path: `^packages/${alternatives(names.filter((n) => n !== name && !runtime[name].includes(n)))}/` },
}));

module.exports = {
  forbidden: [
    ...arrows,
    {
      name: "reader-sees-the-catalog-only",
      severity: "error",
      comment: "the reader needs table names and types of the indexer, never its writing half",
      from: { path: "^packages/reader/src/" },
      to: { path: "^packages/indexer/", pathNot: "^packages/indexer/src/catalog/" },
    },
    {
      name: "no-deep-imports",
      severity: "error",
      comment: "another package is imported by its exports, never by a file inside it",
      from: { path: "^packages/([^/]+)/src/" },
      to: {
        path: "^packages/([^/]+)/src/",
        pathNot: [
          "^packages/$1/",
          "^packages/[^/]+/src/(index|spi)\\.ts$",
          "^packages/[^/]+/src/(catalog|steps|testing|clickhouse|aws|gcs|fetch|conformance)/index\\.ts$",
        ],
      },
    },
    {
      name: "no-testing-in-products",
      severity: "error",
      comment: "a ./testing subpath is for tests",
      from: { path: "^packages/([^/]+)/src/", pathNot: "^packages/[^/]+/src/testing/" },
      to: { path: "^packages/[^/]+/src/testing/" },
    },
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    {
      name: "no-undeclared-dependencies",
      severity: "error",
      comment: "what dist imports has to be in dependencies or peerDependencies",
      from: { path: "^packages/[^/]+/src/" },
      // A peer that is linked under two names (two majors for the tests) is told as both declared and not.
      to: {
        dependencyTypes: ["npm-no-pkg", "npm-unknown", "unknown", "undetermined"],
        dependencyTypesNot: ["npm", "npm-peer"],
        pathNot: "^packages/",
      },
    },
    {
      name: "everything-resolves",
      severity: "error",
      comment: "one of ours that is not declared in package.json is not linked, and so is not found",
      from: { path: "^packages/[^/]+/src/" },
      to: { couldNotResolve: true },
    },
    {
      name: "no-development-dependencies-in-products",
      severity: "error",
      from: { path: "^packages/[^/]+/src/" },
      to: { dependencyTypes: ["npm-dev"], dependencyTypesNot: ["type-only", "npm-peer", "npm"] },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    includeOnly: undefined,
    exclude: { path: "(/dist/|/test/)" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.base.json" },
    enhancedResolveOptions: {
      conditionNames: ["@holdfast/source", "import", "node", "default", "types"],
      exportsFields: ["exports"],
      extensions: [".ts", ".js", ".mjs", ".json", ".d.ts"],
    },
  },
};
