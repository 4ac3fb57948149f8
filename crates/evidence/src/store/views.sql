-- The packed series and the latency distributions as rows; what the columns mean: docs/run-db.md.
CREATE TEMP VIEW sample AS
SELECT source.test, source.host, source.world, source.instance, source.database, source.measure,
       point.value ->> 0 AS t_ms, point.value ->> 1 AS interval_ms, point.value ->> 2 AS count, point.value ->> 3 AS bytes,
       point.value ->> 4 AS latency_ns_sum, point.value ->> 5 AS latency_ns_max,
       (point.value ->> 2) * 1000.0 / (point.value ->> 1) AS per_s,
       (point.value ->> 3) * 1000.0 / (point.value ->> 1) / 1048576 AS mib_per_s,
       (point.value ->> 4) / 1e6 / (point.value ->> 2) AS latency_ms
FROM main.source JOIN main.series ON series.source = source.id,
     json_each(unpack(series.minute, source.measure, series.samples)) AS point
WHERE json_array_length(point.value) = 6;
CREATE TEMP VIEW counter_sample AS
SELECT source.test, source.host, source.world, source.instance, source.database, source.measure AS counter,
       point.value ->> 0 AS t_ms, point.value ->> 1 AS interval_ms, point.value ->> 2 AS value
FROM main.source JOIN main.series ON series.source = source.id,
     json_each(unpack(series.minute, source.measure, series.samples)) AS point
WHERE json_array_length(point.value) = 3;
CREATE TEMP VIEW distribution AS
SELECT source.test, source.host, source.world, source.instance, source.database, source.measure,
       histogram.t_ms, histogram.interval_ms, histogram.latency_ns_max / 1e6 AS latency_ms_max, histogram.hdr_v2
FROM main.source JOIN main.histogram ON histogram.source = source.id;
