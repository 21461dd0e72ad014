package journal

import (
	"fmt"
	"path/filepath"

	"github.com/muster-fleet/muster/internal/journal/disk"
)

// The reserve is a file that holds room back. When the disk is full it is deleted,
// so that snapshots can be written and the log be cut; commits wait until it can
// be taken again. So a disk with less room than the reserve counts as full.

const reserveFile = "RESERVE"

// takeReserve takes the reserve where it is not there.
func (l *Log) takeReserve() error {
	if l.opts.Reserve == 0 || l.writer.reserved {
		return nil
	}
	path := filepath.Join(l.dir, reserveFile)
	if f, err := l.opts.FS.Open(path); err == nil {
		size, err := f.Size()
		_ = f.Close()
		if err == nil && size == l.opts.Reserve {
			l.writer.reserved = true
			return nil
		}
	}
	_ = l.opts.FS.Remove(path) // of another size: its room counts as free
	need := l.opts.Reserve + 2*int64(l.opts.MaxCommit)
	if room, err := l.opts.FS.Free(l.dir); err == nil && room < need {
		return fmt.Errorf("disk is full: %d MiB free in %q, the journal needs %d MiB", room>>20, l.dir, need>>20)
	}
	f, err := l.opts.FS.Create(path)
	if err != nil {
		return fmt.Errorf("take the journal's reserve: %w", err)
	}
	err = f.Allocate(l.opts.Reserve)
	_ = f.Close()
	if err != nil {
		_ = l.opts.FS.Remove(path)
		return fmt.Errorf("take the journal's reserve: %w", err)
	}
	l.writer.reserved = true
	return nil
}

// dropReserve lets the reserve go when the disk is full.
func (l *Log) dropReserve(cause error) {
	if !l.writer.reserved || !disk.IsFull(cause) {
		return
	}
	l.writer.reserved = false
	if err := l.opts.FS.Remove(filepath.Join(l.dir, reserveFile)); err != nil {
		l.opts.Logger.Warn("journal reserve was not released", "err", err)
		return
	}
	l.opts.Logger.Warn("disk is full: journal released its reserve", "bytes", l.opts.Reserve)
}
