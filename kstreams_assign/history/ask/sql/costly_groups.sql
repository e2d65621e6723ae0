-- Which groups lost most time to rebalances, and after what? A row a group, the costliest first.
-- silent_s: seconds in which a moved task committed nothing, summed over the moves.
-- A follow-up or a probe moves what an earlier rebalance began: the cause is that one's.
with explained as (
  select
    "group", generation, offsets_partition, offsets_offset,
    coalesce(
      last_value(
        case when cause is null then 'unknown' when cause not in ('follow_up', 'probe') then cause end ignore nulls
      ) over (
        partition by "group" order by offsets_partition, offsets_offset
        rows between unbounded preceding and current row
      ),
      cause
    ) as cause
  from rebalances
),
moves as (
  select m."group", m.gap_ms, m.planned, m.warm, coalesce(e.cause, 'unknown') as cause
  from movements m
  left join explained e using ("group", generation, offsets_partition, offsets_offset)
),
causes as (
  select "group", cause, sum(gap_ms) as gap_ms
  from moves
  where gap_ms > 0
  group by "group", cause
),
main as (
  select "group", cause, gap_ms
  from causes
  qualify row_number() over (partition by "group" order by gap_ms desc, cause) = 1
),
counted as (
  select "group", count(*) as rebalances
  from rebalances
  group by "group"
),
moved as (
  select
    "group",
    count(*) as moves,
    count(*) filter (not planned) as unplanned_moves,
    count(*) filter (not warm) as cold_moves,
    sum(gap_ms) / 1000.0 as silent_s,
    max(gap_ms) / 1000.0 as longest_s
  from moves
  group by "group"
)
select
  c."group",
  c.rebalances,
  coalesce(m.moves, 0) as moves,
  coalesce(m.unplanned_moves, 0) as unplanned_moves,
  coalesce(m.cold_moves, 0) as cold_moves,
  m.silent_s,
  m.longest_s,
  main.cause as main_cause,
  main.gap_ms / 1000.0 as main_cause_s
from counted c
left join moved m using ("group")
left join main using ("group")
order by m.silent_s desc nulls last, moves desc, c."group"
