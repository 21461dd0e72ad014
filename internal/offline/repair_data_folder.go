package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/store/compliancelog"
	"github.com/muster-fleet/muster/internal/store/history"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/store/snapshot"
	"github.com/muster-fleet/muster/internal/store/textlog"
	"github.com/muster-fleet/muster/internal/wire"
)

// RepairCommand returns the command `muster doctor repair`.
func RepairCommand() *cobra.Command {
	return commandForStoppedServer(&cobra.Command{
		Use:   "repair --data DIR",
		Short: "Repair the files of a stopped server, and print the losses",
		Long: `Repair the files of a stopped server, so that it starts again, and print the losses: journal, snapshots,
intent.db, history.db, compliance.db, text.db and pki. Undamaged parts stay unchanged. Copy the folder first.

The command also accepts files that are older than the others or not of this folder, which the server refuses.
Ids that were used are not given again. Messages that an older history may have lost are not
sent a second time.`,
		Example: "  muster doctor repair --data /var/lib/muster",
	}, repairData)
}

// RestoredCommand returns the command `muster doctor restored`, which prepares data restored from a backup for
// the server. The command prepares a data folder that was restored from a backup.
func RestoredCommand() *cobra.Command {
	return commandForStoppedServer(&cobra.Command{
		Use:   "restored --data DIR",
		Short: "Give a data folder that was restored from a backup a new incarnation, before the server starts",
		Long: `Data restored from a backup is older than the state of agents and people. The command gives
the data folder a new incarnation: agents send their spooled results again and accept its
assignments; the server does not reuse ids from the time after the backup, and refuses older
page tokens and ETags. You can safely repeat the command.`,
		Example: "  muster doctor restored --data /var/lib/muster",
	}, beginNewIncarnation)
}

// commandForStoppedServer returns a command that runs a function on the data folder of a stopped server. The folder is
// locked meanwhile.
func commandForStoppedServer(c *cobra.Command, do func(ctx context.Context, cfg *config.Server, out io.Writer) error) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(cmd.Flags(), os.Getenv)
		if err != nil {
			return err
		}
		if err := datadir.BecomeOwner(cfg.Data); err != nil {
			return err
		}
		held, err := datadir.LockForRepair(cfg.Data)
		if err != nil {
			return datadir.ExplainFileError(err, cfg.Data)
		}
		return datadir.ExplainFileError(errors.Join(do(cmd.Context(), cfg, cmd.OutOrStdout()), held.Close()), cfg.Data)
	}
	config.AddFlags(c.Flags(), "data", "journal", "journal-budget", "journal-reserve", "intent-db", "history-db")
	return c
}

// repairData repairs all files of the data folder, and prints the lost data.
func repairData(ctx context.Context, cfg *config.Server, out io.Writer) error {
	changed := false
	say := func(format string, args ...any) {
		changed = true
		fmt.Fprintf(out, format+"\n", args...)
	}
	if err := repairAuthority(filepath.Join(cfg.Data, "pki"), say); err != nil {
		return err
	}
	resources, err := intentdb.Repair(ctx, datadir.IntentDB(cfg))
	changes, err2 := history.Repair(ctx, datadir.HistoryDB(cfg))
	runs, err3 := compliancelog.Repair(ctx, datadir.ComplianceDB(cfg))
	texts, err4 := textlog.Repair(ctx, datadir.TextDB(cfg))
	for _, l := range slices.Concat(resources, changes, runs, texts) {
		say("%s", l)
	}
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	o, err := recordedPositions(ctx, cfg)
	if err != nil {
		return err
	}
	lost, err := journal.Repair(datadir.Journal(cfg), o)
	for _, l := range lost {
		say("%s", l)
	}
	if err != nil {
		return err
	}
	differences, err := repairWithJournal(ctx, cfg, say)
	if err != nil {
		return err
	}
	if differences {
		if _, err := journal.NewIncarnation(datadir.Journal(cfg), o); err != nil {
			return err
		}
		if _, err := repairWithJournal(ctx, cfg, say); err != nil {
			return err
		}
	}
	if !changed {
		fmt.Fprintln(out, "all files are undamaged and belong together: nothing was changed")
	}
	return nil
}

// repairAuthority moves a damaged certificate authority aside, by renaming its folder. The next start creates a new
// authority.
func repairAuthority(dir string, say func(string, ...any)) error {
	err := pki.Verify(dir)
	if err == nil {
		return nil
	}
	aside := fmt.Sprintf("%s.damaged-%d", dir, time.Now().Unix())
	say("%s: %v; it is now %s. The server makes a new CA: every agent must join again", dir, err, aside)
	return os.Rename(dir, aside)
}

// repairWithJournal repairs the snapshots and databases from the journal, which is already repaired. The result is
// true if stores differ from the journal's last mark: after a new incarnation of the journal the next call accepts
// them.
func repairWithJournal(ctx context.Context, cfg *config.Server, say func(string, ...any)) (differences bool, err error) {
	o := datadir.JournalOptions(cfg)
	o.Tick, o.Reserve = -1, -1
	log, err := journal.Open(datadir.Journal(cfg), o)
	if err != nil {
		return false, err
	}
	defer log.Close()
	snapshots, err := snapshot.Open(snapshot.Options{
		Dir: datadir.Snapshots(cfg), Head: log.Head(), Resolve: log.Resolve, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return false, err
	}
	last, whole, err := latestDatabaseRecord(ctx, log, snapshots)
	if err != nil {
		return false, err
	}
	if emptied, from, err := repairSnapshots(log, snapshots); err != nil {
		return false, err
	} else if emptied > 0 {
		say("%s: the event states of %d of %d partitions before commit %d are lost; the next results restore them",
			datadir.Snapshots(cfg), emptied, model.Partitions, from)
	}
	resources, err := intentdb.Open(ctx, datadir.IntentDB(cfg), kind.All(), time.Now)
	if err != nil {
		return false, err
	}
	defer resources.Close()
	past, err := history.Open(ctx, datadir.HistoryDB(cfg), history.SizeLimit{})
	if err != nil {
		return false, err
	}
	defer past.Close()
	stores := &datadir.Stores{Config: cfg, Journal: log, Intent: resources, History: past}
	list, err := stores.Differences(ctx, last)
	if err != nil {
		return false, err
	}
	if last.Incarnation == log.Incarnation().ID && len(list) > 0 {
		for _, difference := range list {
			say("%s: accepted unchanged", difference)
		}
		return true, nil
	}
	before, err := past.Incarnation(ctx)
	if err != nil {
		return false, err
	}
	unknownUntil, err := stores.RecordIncarnation(ctx, last)
	if err != nil || unknownUntil.IsZero() || before == log.Incarnation().ID {
		return false, err
	}
	again, err := remakeHistory(ctx, log, snapshots, past, whole)
	if err != nil {
		return false, err
	}
	say("%s: the server cannot know which messages were sent before %s, so it sends none of them again; %s",
		datadir.HistoryDB(cfg), unknownUntil.UTC().Format(time.RFC3339), again)
	return false, nil
}

// remakeHistory deletes the part of the change history that the server's next start reads from the journal
// again. It returns a sentence about these changes. A start replays the journal from the snapshots: from its
// first commit without any, else from the oldest ones.
func remakeHistory(ctx context.Context, log *journal.Log, snapshots *snapshot.Store, past history.Store, whole bool) (again string, err error) {
	if whole {
		return "the next start reads all changes from the journal again", errors.Join(past.ForgetChanges(ctx, [model.Partitions]journal.Position{}), snapshots.Clear())
	}
	oldest, err := journal.OldestReceived(ctx, log)
	if err != nil {
		return "", err
	}
	before := log.Tail()
	before.Number--
	kept, since, err := snapshots.KeepOldest(before)
	if err != nil {
		return "", err
	}
	if since.Before(oldest) {
		since = oldest
	}
	first := uint64(0)
	for _, at := range kept {
		first = max(first, at.Number+1)
	}
	return fmt.Sprintf("the next start reads the changes since %s (commit %d) again, where the journal and its snapshots begin; of older changes, history keeps those that its file still has",
		since.UTC().Format(time.RFC3339), first), past.ForgetChanges(ctx, kept)
}

// latestDatabaseRecord returns the newest stored record of the databases' ids, from snapshots or journal, or
// zero. The record has the revision of declared resources and the ids of the databases. whole reports that the
// journal has all commits since the first.
func latestDatabaseRecord(ctx context.Context, log *journal.Log, snapshots *snapshot.Store) (last wire.IntentRecord, whole bool, err error) {
	at := uint64(0)
	for p := range model.Partitions {
		if snap, ok, _ := snapshots.Load(model.Partition(p)); ok && snap.At.Number >= at {
			if mark := shard.SnapshotRevision(snap.Body); mark != nil {
				last, at = *mark, snap.At.Number
			}
		}
	}
	from := log.Tail()
	from.Number--
	read := uint64(0)
	whole = true
	err = log.Read(ctx, from, func(c journal.Commit) error {
		read++
		whole = whole && c.Position().Number == read // an empty commit in place of lost ones has the number of the last one
		return c.Entries(journal.All, func(data []byte) error {
			var r wire.Record
			if c.Position().Number > at && r.Decode(data) == nil && r.Kind == wire.RecordIntent {
				last = r.Intent
			}
			return nil
		})
	})
	return last, whole, err
}

// recordedPositions returns journal options with the newest journal positions that snapshots and databases have
// recorded. Snapshots and history have recorded the positions; they reveal a missing end of the journal.
func recordedPositions(ctx context.Context, cfg *config.Server) (o journal.Options, err error) {
	o = datadir.JournalOptions(cfg)
	names, err := snapshot.ReadNames(disk.OS{}, datadir.Snapshots(cfg))
	if err != nil {
		return o, err
	}
	o.KnownPositions = names.Positions
	if o.KnownTimes, err = snapshot.NewestTimes(disk.OS{}, datadir.Snapshots(cfg)); err != nil {
		return o, err
	}
	if _, err := os.Stat(datadir.HistoryDB(cfg)); cfg.HistoryDB == "" && errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	store, err := history.Open(ctx, datadir.HistoryDB(cfg), history.SizeLimit{})
	if err != nil {
		return o, err
	}
	defer store.Close()
	places, err := store.Positions(ctx)
	for _, place := range places {
		o.KnownPositions = append(o.KnownPositions, place.At)
	}
	return o, err
}

// repairSnapshots writes an empty snapshot for each group of nodes (partition) whose snapshot is lost. Neither
// a snapshot nor the journal has the state of such a share (partition).
func repairSnapshots(log *journal.Log, store *snapshot.Store) (emptied int, from uint64, err error) {
	at := log.Tail()
	from = at.Number
	at.Number-- // the last commit before the journal's first
	for i := range model.Partitions {
		p := model.Partition(i)
		if snap, _, _ := store.Load(p); snap.At.Number >= at.Number {
			continue
		}
		pending, err := store.Write(p, at, snapshot.Append(nil, &snapshot.Snapshot{Partition: p, At: at, Body: shard.EmptySnapshot()}))
		if err == nil {
			err = pending.Commit()
		}
		if err != nil {
			return emptied, from, err
		}
		emptied++
	}
	return emptied, from, nil
}

// beginNewIncarnation gives the journal of a stopped server a new random id (incarnation). It does so because
// the data folder was restored from a backup.
func beginNewIncarnation(ctx context.Context, cfg *config.Server, out io.Writer) error {
	o, err := recordedPositions(ctx, cfg)
	if err != nil {
		return err
	}
	life, err := journal.NewIncarnation(datadir.Journal(cfg), o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has the new incarnation %016x; start the server\n", cfg.Data, life.ID)
	fmt.Fprintf(out, "machines that joined after the backup ask to join again: %[1]s node list --pending; %[1]s node accept --all-returning\n", os.Args[0])
	return nil
}
