-- Which changelogs restore slowest? A row a changelog of tasks that moved cold, the longest silence first.
-- silent_s and longest_s: of one such move, the median and the longest. They begin with the old owner's last commit, so
-- those of unplanned moves have the time until the group knew that a process was gone.
-- records: of the changelog's partition, the median. records_per_s: of all changelogs of the task, at least so many.
-- topic is null where no end offset was sampled.
with cold as (
  select *
  from movements
  where not warm and gap_ms > 0
),
sizes as (
  select "group", generation, offsets_partition, offsets_offset, task, topic, sum(end_offset - begin_offset) as records
  from end_offsets
  where task is not null
  group by all
),
restores as (
  select
    c."group",
    s.topic,
    c.planned,
    c.gap_ms,
    s.records,
    sum(s.records) over (
      partition by c."group", c.generation, c.offsets_partition, c.offsets_offset, c.task
    ) as task_records
  from cold c
  left join sizes s using ("group", generation, offsets_partition, offsets_offset, task)
)
select
  "group",
  topic,
  count(*) as cold_moves,
  count(*) filter (not planned) as unplanned_moves,
  median(records) as records,
  median(gap_ms) / 1000.0 as silent_s,
  max(gap_ms) / 1000.0 as longest_s,
  median(task_records * 1000.0 / gap_ms) as records_per_s
from restores
group by "group", topic
order by silent_s desc, cold_moves desc, "group", topic nulls last
