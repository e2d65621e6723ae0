-- What moves cost: the measured half of the question what other settings would have saved.
-- cold_silent_s: of tasks that were restored while nobody worked on them. warm_s: what a warm move takes, the median,
-- after a process was lost. planned_s: what a move between living processes takes, the median.
select
  count(*) filter (not warm and gap_ms > 0) as cold_moves,
  sum(gap_ms) filter (not warm) / 1000.0 as cold_silent_s,
  count(*) filter (not planned and not warm and gap_ms > 0) as lost_cold_moves,
  sum(gap_ms) filter (not planned and not warm) / 1000.0 as lost_cold_s,
  median(gap_ms) filter (not planned and warm and gap_ms > 0) / 1000.0 as warm_s,
  median(gap_ms) filter (planned and gap_ms > 0) / 1000.0 as planned_s
from movements
