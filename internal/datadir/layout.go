package datadir

import (
	"path/filepath"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/pipeline/shard"
	"github.com/muster-fleet/muster/internal/store/snapshot"
)

// Snapshots returns the folder of snapshots.
func Snapshots(cfg *config.Server) string { return filepath.Join(cfg.Data, "snapshots") }

// Journal returns the folder of the journal.
func Journal(cfg *config.Server) string {
	if cfg.Journal != "" {
		return cfg.Journal
	}
	return filepath.Join(cfg.Data, "journal")
}

// JournalOptions returns the options with which the server, and the commands that repair its
// journal, open it.
func JournalOptions(cfg *config.Server) journal.Options {
	return journal.Options{
		Budget: int64(cfg.JournalBudget), Reserve: int64(cfg.JournalReserve), Partitions: model.Partitions,
		Stores:        map[string]int{"snapshots": snapshot.FormatVersion, "partitions": shard.SnapshotVersion, "events": event.SectionVersion},
		RepairCommand: StoppedCommand(cfg, "repair"),
	}
}

// StoppedCommand returns the line of `muster doctor` to type on the server's machine while the
// server is stopped.
func StoppedCommand(cfg *config.Server, verb string) string {
	command := "muster doctor " + verb + " --data " + cfg.Data
	if cfg.Journal != "" {
		command += " --journal " + cfg.Journal
	}
	return command
}
