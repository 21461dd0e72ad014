package snapshot

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/model"
)

const (
	suffix = ".snap"
	beside = ".new"
	aside  = ".ahead"
)

func fileName(p model.Partition, at journal.Position) string {
	return fmt.Sprintf("p%03d-%016x-%020d%s", p, at.Log, at.Number, suffix)
}

func parseName(name string) (p model.Partition, at journal.Position, ok bool) {
	n, err := fmt.Sscanf(name, "p%03d-%016x-%020d"+suffix, &p, &at.Log, &at.Number)
	return p, at, n == 3 && err == nil && name == fileName(p, at)
}

// Names sums up a folder of snapshots for a journal that is to be opened. Only the names of the
// files are read: reading a file needs the journal.
type Names struct {
	// Seen has the highest position of each incarnation of the journal.
	Seen []journal.Position
	// Oldest is the lowest position of all, once every partition has Keep snapshots, else
	// zero. Commits before it are needed only where snapshots turn out damaged.
	Oldest journal.Position
}

// ReadNames reads a folder; one that is not there holds nothing.
func ReadNames(fsys disk.FS, dir string) (n Names, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("list snapshots: %w", err)
	}
	furthest := map[uint64]uint64{}
	var files [model.Partitions]int
	for _, name := range names {
		p, at, ok := parseName(name)
		if !ok {
			continue
		}
		furthest[at.Log] = max(furthest[at.Log], at.Number)
		files[p]++
		if n.Oldest.Number == 0 || at.Number < n.Oldest.Number {
			n.Oldest = at
		}
	}
	for log, number := range furthest {
		n.Seen = append(n.Seen, journal.Position{Log: log, Number: number})
	}
	for _, count := range files {
		if count < Keep {
			n.Oldest = journal.Position{}
		}
	}
	return n, nil
}
