/** ceph.conf of a cluster that lives in one folder and in memory, and asks for no keys between its own parts. */
export const configuration = (dir, { fsid, monPort, port }) => `[global]
fsid = ${fsid}
mon_initial_members = a
mon_host = v1:127.0.0.1:${monPort}/0
public_addr = 127.0.0.1
ms_bind_msgr2 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none

# everything below one folder
run_dir = ${dir}
log_file = ${dir}/log/$name.log
admin_socket = ${dir}/$name.asok
crash_dir = ${dir}/log
mon_data = ${dir}/mon
osd_data = ${dir}/osd
rgw_data = ${dir}/rgw

# one copy of everything, in memory; the size is a limit, of which nothing is taken in advance
# an orderly stop writes what is in memory to osd_data, a start reads it
osd_fast_shutdown = false
osd_objectstore = memstore
memstore_device_bytes = 34359738368
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_crit = 1
mon_data_avail_warn = 2

[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:${port}
rgw_thread_pool_size = 64
rgw_enable_lc_threads = false
rgw_dynamic_resharding = false
# memory of deleted objects comes back within seconds, not hours
rgw_gc_obj_min_wait = 2
rgw_gc_processor_period = 2
rgw_gc_processor_max_time = 60
rgw_gc_max_concurrent_io = 64
`;
