-- What did each deployment cost? A row a deployment, the costliest first.
-- A deployment: members join and leave, never ten minutes apart, until at least half of the group's processes have
-- changed. A process that leaves and one that joins in its place are one change. A process that comes back with all of
-- its members as other members is one, however often it does. A thread that joins or leaves is none.
-- It costs what moves from its begin to ten minutes after its end.
with ordered as (
  select
    *,
    lag(generation) over places as generation_before,
    lag(offsets_partition) over places as partition_before,
    lag(offsets_offset) over places as offset_before
  from rebalances
  window places as (partition by "group" order by offsets_partition, offsets_offset)
),
changes as (
  select *, coalesce(time_ms - lag(time_ms) over places > 600000, true) as begins
  from ordered
  where cause in ('join', 'leave', 'replace')
  window places as (partition by "group" order by offsets_partition, offsets_offset)
),
numbered as (
  select *, sum(begins::int) over (partition by "group" order by offsets_partition, offsets_offset) as number
  from changes
),
spans as (
  select "group", number, min(time_ms) as began_ms, max(time_ms) as ended_ms, max(processes) as processes
  from numbered
  group by "group", number
),
replaced as (
  select *
  from numbered
  where cause = 'replace' and len(coalesce(joined, [])) = 0 and len(coalesce(gone, [])) = 0
),
members_after as (
  select r."group", r.number, r.offsets_partition, r.offsets_offset, m.process_id, list(m.member_id) as ids
  from replaced r
  join members m using ("group", generation, offsets_partition, offsets_offset)
  where m.process_id is not null
  group by all
),
members_before as (
  select r."group", r.number, r.offsets_partition, r.offsets_offset, m.process_id, list(m.member_id) as ids
  from replaced r
  join members m
    on m."group" = r."group" and m.generation = r.generation_before and m.offsets_partition = r.partition_before
    and m.offsets_offset = r.offset_before
  where m.process_id is not null
  group by all
),
named as (
  select "group", number, unnest(joined) as process_id, 'joined' as how from numbered
  union all
  select "group", number, unnest(gone) as process_id, 'gone' as how from numbered
  union all
  select "group", number, process_id, 'came back' as how
  from members_after a
  join members_before b using ("group", number, offsets_partition, offsets_offset, process_id)
  where not list_has_any(a.ids, b.ids)
),
counted as (
  select
    "group",
    number,
    count(distinct process_id) filter (how = 'joined') as joined,
    count(distinct process_id) filter (how = 'gone') as gone,
    count(distinct process_id) - count(distinct process_id) filter (how <> 'came back') as came_back
  from named
  group by "group", number
),
deployments as (
  select s.*, coalesce(greatest(c.joined, c.gone) + c.came_back, 0) as changed
  from spans s
  left join counted c using ("group", number)
  where coalesce(greatest(c.joined, c.gone) + c.came_back, 0) * 2 >= s.processes
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
