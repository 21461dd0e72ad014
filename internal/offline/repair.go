package offline

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

// RepairCommand returns the command `muster doctor repair`.
func RepairCommand() *cobra.Command {
	return commandForStoppedServer(&cobra.Command{
		Use:   "repair --data DIR",
		Short: "Remove damaged parts of a stopped server's journal or snapshots, and print the losses",
		Long: `Remove the damaged parts of the journal of a stopped server, so that it starts again, and print
the losses. Undamaged parts stay unchanged.`,
		Example: "  muster doctor repair --data /var/lib/muster",
	}, repairData)
}

// RestoredCommand returns the command `muster doctor restored`.
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

// commandForStoppedServer completes a command that works on the data folder of a stopped server.
func commandForStoppedServer(c *cobra.Command, do func(cfg *config.Server, out io.Writer) error) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(cmd.Flags(), os.Getenv)
		if err != nil {
			return err
		}
		if err := datadir.BecomeOwner(cfg.Data); err != nil {
			return err
		}
		held, err := datadir.LockStopped(cfg.Data)
		if err != nil {
			return datadir.Explain(err, cfg.Data)
		}
		return datadir.Explain(errors.Join(do(cfg, cmd.OutOrStdout()), held.Close()), cfg.Data)
	}
	config.Flags(c.Flags(), "data", "journal", "journal-budget", "journal-reserve")
	return c
}

func repairData(cfg *config.Server, out io.Writer) error {
	lost, err := journal.Repair(datadir.Journal(cfg), datadir.JournalOptions(cfg))
	for _, l := range lost {
		fmt.Fprintln(out, l)
	}
	if err != nil {
		return err
	}
	emptied, from, err := repairSnapshots(cfg)
	if err != nil {
		return err
	}
	if emptied > 0 {
		fmt.Fprintf(out, "%s: the event states of %d of %d partitions before commit %d are lost; the next results restore them\n",
			datadir.Snapshots(cfg), emptied, model.Partitions, from)
	}
	if len(lost) == 0 && emptied == 0 {
		fmt.Fprintln(out, "journal and snapshots are undamaged: nothing was changed")
	}
	return nil
}

// repairSnapshots writes an empty snapshot for each partition that neither a snapshot nor the
// journal can restore.
func repairSnapshots(cfg *config.Server) (emptied int, from uint64, err error) {
	o := datadir.JournalOptions(cfg)
	o.Tick, o.Reserve = -1, -1
	log, err := journal.Open(datadir.Journal(cfg), o)
	if err != nil {
		return 0, 0, err
	}
	defer log.Close()
	store, err := snapshot.Open(snapshot.Options{
		Dir: datadir.Snapshots(cfg), Head: log.Head(), Resolve: log.Resolve, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return 0, 0, err
	}
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

func beginNewIncarnation(cfg *config.Server, out io.Writer) error {
	o := datadir.JournalOptions(cfg)
	names, err := snapshot.ReadNames(disk.OS{}, datadir.Snapshots(cfg))
	if err != nil {
		return err
	}
	o.KnownPositions = names.Seen
	life, err := journal.NewIncarnation(datadir.Journal(cfg), o)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has the new incarnation %016x; start the server\n", cfg.Data, life.ID)
	fmt.Fprintln(out, "machines that joined after the backup ask to join again: muster node list --pending; muster node accept --all-returning")
	return nil
}
