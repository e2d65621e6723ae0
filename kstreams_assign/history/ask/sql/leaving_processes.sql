-- Which process keeps leaving? A row a process that left, the most frequent first.
-- away_s: from the rebalance without it to the first one with it again, the median over its returns.
-- silent_s: seconds in which the tasks that it left behind committed nothing, summed. If it was the last process of its
-- group, they move in a later rebalance, up to the one with it again.
with departures as (
  select "group", generation, offsets_partition, offsets_offset, time_ms, unnest(gone) as process_id
  from rebalances
),
arrivals as (
  select "group", time_ms, unnest(joined) as process_id
  from rebalances
),
returns as (
  select d.*, min(a.time_ms) as back_ms
  from departures d
  left join arrivals a
    on a."group" = d."group" and a.process_id = d.process_id and a.time_ms >= d.time_ms
  group by all
),
silences as (
  select
    m."group",
    m.from_process as process_id,
    count(*) as moves,
    count(*) filter (not m.warm) as cold_moves,
    sum(m.gap_ms) / 1000.0 as silent_s
  from movements m
  where exists (
    from returns r
    where r."group" = m."group" and r.process_id = m.from_process and r.time_ms <= m.time_ms
      and (not m.planned or m.time_ms = r.back_ms)
  )
  group by m."group", m.from_process
),
hosts as (
  select "group", process_id, max_by(client_host, (time_ms, member_id)) as host
  from members
  where process_id is not null
  group by "group", process_id
)
select
  r."group",
  r.process_id,
  h.host,
  count(*) as departures,
  count(r.back_ms) as returns,
  median(r.back_ms - r.time_ms) / 1000.0 as away_s,
  make_timestamp(max(r.time_ms) * 1000) as last_left,
  coalesce(any_value(s.moves), 0) as moves,
  coalesce(any_value(s.cold_moves), 0) as cold_moves,
  any_value(s.silent_s) as silent_s
from returns r
left join silences s using ("group", process_id)
left join hosts h using ("group", process_id)
group by r."group", r.process_id, h.host
order by departures desc, silent_s desc nulls last, r."group", r.process_id
