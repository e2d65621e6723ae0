-- What did each deployment cost? A row a deployment, the costliest first.
-- A deployment: members join and leave, never ten minutes apart, until at least half of the group's processes have
-- left, joined, or come back as other members. It costs what moves from its begin to ten minutes after its end.
with changes as (
  select
    *,
    list_concat(coalesce(joined, []), coalesce(gone, [])) as changed,
    coalesce(time_ms - lag(time_ms) over places > 600000, true) as begins
  from rebalances
  where cause in ('join', 'leave', 'replace')
  window places as (partition by "group" order by time_ms, offsets_partition, offsets_offset)
),
numbered as (
  select *, sum(begins::int) over (partition by "group" order by time_ms, offsets_partition, offsets_offset) as number
  from changes
),
spans as (
  select
    "group",
    number,
    min(time_ms) as began_ms,
    max(time_ms) as ended_ms,
    max(processes) as processes,
    count(*) filter (len(changed) = 0) as came_back
  from numbered
  group by "group", number
),
named as (
  select "group", number, count(distinct process_id) as named
  from (select "group", number, unnest(changed) as process_id from numbered)
  group by "group", number
),
deployments as (
  select s.*, s.came_back + coalesce(n.named, 0) as changed
  from spans s
  left join named n using ("group", number)
  where (s.came_back + coalesce(n.named, 0)) * 2 >= s.processes
),
rounds as (
  select d."group", d.number, count(*) as rebalances
  from deployments d
  join rebalances r on r."group" = d."group" and r.time_ms between d.began_ms and d.ended_ms + 600000
  group by d."group", d.number
),
moved as (
  select
    d."group",
    d.number,
    count(*) as moves,
    count(*) filter (not m.warm) as cold_moves,
    sum(m.gap_ms) / 1000.0 as silent_s,
    max(m.gap_ms) / 1000.0 as longest_s
  from deployments d
  join movements m on m."group" = d."group" and m.time_ms between d.began_ms and d.ended_ms + 600000
  group by d."group", d.number
)
select
  d."group",
  make_timestamp(d.began_ms * 1000) as began,
  (d.ended_ms - d.began_ms) / 1000.0 as lasted_s,
  d.processes,
  d.changed,
  r.rebalances,
  coalesce(m.moves, 0) as moves,
  coalesce(m.cold_moves, 0) as cold_moves,
  m.silent_s,
  m.longest_s
from deployments d
left join rounds r using ("group", number)
left join moved m using ("group", number)
order by m.silent_s desc nulls last, began desc, d."group"
