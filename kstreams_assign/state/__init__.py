"""The state directory of one process: its folders and locks, the offset sums that it reports, and the cleaner.

Who owns a folder, when it may be removed, and KIP-441's mutex between reporting and removing. The content of a task's
folder (``adapters.rocksdb``), the group protocol and clocks do not belong here.
"""
