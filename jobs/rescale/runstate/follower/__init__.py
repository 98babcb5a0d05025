"""Files that a follower keeps beside its target: rounds, and pins of checkpoints; and their removal.

A follower (`rescale follow`) reads checkpoints of a running job, one after the other, before a run claims the target:
the target is FREE meanwhile (`states`). The state of a follower is not stored: it follows from which files exist.

    file                      written by                   means                          after a crash
    ------------------------  ---------------------------  -----------------------------  -----------------------------
    follower.json             follow, first, if absent     the rounds belong to this      the same job in the same
                                                           job and shape                  shape, nothing else
    pins/DIRECTORY/…          follow, each whole           the file outlives Flink's      serves whichever checkpoint
                                                           deletion                       is pinned next
    pins/…/chk-N/_metadata    follow, after all files      checkpoint N is pinned         its round is made, or goes on
                              that it names
    pins/…/chk-N/_flushed     a thread of follow, after    what checkpoint N flushed is   the next round looks for
                              all flushed files            pinned                         changed keys in these files
    rounds/N, rounds/N.       a run with rounds/N as its   as in the table of `states`,   the run resumes; one of
    rescale/…                 target                       for that run                   another plan is removed
    rounds/N/_metadata        publish of that run          round N is finished            the next round continues it
    rounds/N.json             follow, after `_metadata`    rows, bytes and time of the    it is written again, without
                                                       round                          its time

A round continues the newest finished round or the *anchor*. The anchor is the round whose records were all compared
with those of its checkpoint. As long as there is no such round, the anchor is the *root*: the full run on which the
rounds are based. So the newest round and the anchor are kept, with the pins of their checkpoints. The root is kept,
too, because its plan may need an approval. All other rounds are removed after each round, `_metadata` first. A round
that fails for good is also removed, with its pins, because it would fail again and again. Two followers of one target
remove the same files; if one follower removes a round too early, the other refuses to continue this round.

A round has no copies of the SST files of the round that it continues: it refers to them, wherever they lie in `rounds`.
So files of a removed round stay as long as the certificate of a kept round names them. The last round refers to no
other round: the follower copies the files of earlier rounds into the target ahead (`preparation`).

If a cut-over fails, the job is started again, and has another checkpoint directory. Then `follower.json` names no
directory, until a follower of the new directory names it there. The first round of that follower continues the existing
rounds, if possible. A follower of another directory can also take over without a failed cut-over. It replaces the
directory in `follower.json` if one of the job's state backends has the same id as in the checkpoint of the newest
round. If the checkpoint numbers restart, all pins and rounds are removed.

`follow --finish` is a run with the follower's target as its target, and the newest checkpoint of the job as its source.
The follower's files are removed after `publish`: rounds, pins, then `follower.json`; `discard` does the same. If an
earlier `--finish` of an older checkpoint has not published its result, it is discarded first, because the job has run
on since. A follower that is still active sees at the end of its round that `follower.json` is gone, and removes the
files that it has put since. If it is killed before that, these files stay: without `follower.json`, nothing shows whose
files they are, and `discard` keeps them.
"""
