// What statements of this server may not touch. The engine runs as one user whose grants refuse most of it too (engine-config.ts); these
// lists exist because some of it cannot be revoked there: the scalar function file(), dictionary sources, a few table engines, and all that
// the engine's client part does by itself. Names are lower case.

const set = (names: string): ReadonlySet<string> => new Set(names.split(/\s+/));

/** Functions, table functions and table engines with arguments that read or write files, run programs or reach other hosts. */
export const reachesOutside: ReadonlySet<string> = set(
  `file filecluster filesystem filelog url urlcluster executable executablepool python catboostevaluate embeddedrocksdb disk
   remote remotesecure mysql postgresql materializedpostgresql mongodb redis sqlite jdbc odbc kafka rabbitmq nats arrowflight ytsaurus
   s3 s3cluster s3queue gcs oss cosn hdfs hdfscluster azureblobstorage azureblobstoragecluster azurequeue
   datalakecatalog eval aigenerate aiclassify aiextract aitranslate aiembed deltalake deltalakelocal deltalakecluster deltalakes3 deltalakes3cluster deltalakeazure deltalakeazurecluster hudi hudicluster
   iceberg icebergcluster iceberglocal iceberglocalcluster icebergs3 icebergs3cluster icebergazure icebergazurecluster iceberghdfs iceberghdfscluster
   paimon paimoncluster paimonlocal paimons3 paimons3cluster paimonazure paimonazurecluster paimonhdfs paimonhdfscluster`,
);

/** Those of them that are plain functions, and so can be called by name alone: `arrayMap(file, …)`. */
export const outsideFunctions: ReadonlySet<string> = set(
  "file catboostevaluate aigenerate aiclassify aiextract aitranslate aiembed",
);

/** Sources of dictionaries that stay inside. */
export const dictionarySources: ReadonlySet<string> = set("clickhouse null");

/** What a dictionary may say of a source CLICKHOUSE. Its other keys name hosts or hold SQL. */
export const dictionaryKeys: ReadonlySet<string> = set("table db user password");

/** Settings whose value is a file that the engine reads or writes, or an address. */
export const fileSettings: ReadonlySet<string> = set(
  `format_schema format_template_resultset format_template_row format_avro_schema_registry_url output_format_schema
   input_format_record_errors_file_path rename_files_after_processing url_base`,
);

/** Settings whose value the engine runs as SQL. */
export const sqlSettings: ReadonlySet<string> = set(
  "additional_table_filters additional_result_filter parallel_replicas_custom_key",
);

/** Settings that say whether values of an INSERT are run as SQL: the server sets them by what it has seen of the values. */
export const valuesSettings: ReadonlySet<string> = set(
  "input_format_values_interpret_expressions input_format_values_deduce_templates_of_expressions",
);

/** Databases without which the engine does not work. */
export const fixedDatabases: ReadonlySet<string> = set("default system information_schema");

/** Second words of SYSTEM statements that cannot end or stop the server. */
export const systemVerbs: ReadonlySet<string> = set("start stop flush drop clear reload wait refresh cancel sync");

/** First words of statements that change nothing. */
export const readVerbs: ReadonlySet<string> = set(
  "select with from show describe desc exists explain check set use values",
);
