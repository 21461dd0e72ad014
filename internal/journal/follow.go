package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Follow reads the commits of a journal, oldest first, also while another process has it open: it takes
// no lock and changes nothing. It uses the option FS alone. Each commit is verified against its
// predecessor; damage is a *DamageError, and a folder without a journal is NotFound.
//
// At the end Follow calls more, which waits and returns whether to read on. A commit may not be durable
// yet, and after a failed write an entry may come again in another commit: callers that count must
// deduplicate. A segment that was cut before it was read is ErrTrimmed.
func Follow(ctx context.Context, dir string, o Options, more func() bool, fn func(Commit) error) error {
	f := &follower{dir: dir, opts: o.withDefaults(dir)}
	for {
		if err := f.pass(ctx, fn); err != nil {
			return err
		}
		if !more() {
			return nil
		}
	}
}

// follower is the place of a reader.
type follower struct {
	dir     string
	opts    Options
	folder  *folder
	commits sync.Pool
	segment uint64     // first number of the present segment; zero: nothing is read yet
	offset  int64      // of the next commit in it
	before  checkpoint // state that the next commit continues
}

// pass reads all present commits.
func (f *follower) pass(ctx context.Context, fn func(Commit) error) (err error) {
	if f.folder, err = readFolder(f.opts.FS, f.dir); err != nil {
		return err
	}
	if f.folder == nil {
		return model.Errorf(model.NotFound, "%q holds no journal", f.dir).WithHint("name the server's data folder: --data DIR")
	}
	segments, err := listSegments(&f.opts, f.dir)
	if err != nil {
		return err
	}
	for i, s := range segments {
		limit := uint64(math.MaxUint64)
		if i+1 < len(segments) {
			limit = segments[i+1].first
		}
		if s.first < f.segment {
			continue
		}
		if err := f.read(ctx, s, limit, fn); err != nil {
			return err
		}
	}
	return nil
}

// read reads the rest of one segment, as far as it is whole.
func (f *follower) read(ctx context.Context, s *segment, limit uint64, fn func(Commit) error) error {
	file, err := f.opts.FS.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if f.segment == 0 {
			return nil // cut since the folder was listed: start with the next one
		}
		return fmt.Errorf("read journal segment %q: %w", s.path, ErrTrimmed)
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	w, err := newWalker(file, f.folder.isKnown)
	if errors.Is(err, errVersion) {
		return newerError(s.path)
	}
	if err == nil && f.segment != 0 && w.before.number > f.before.number {
		return fmt.Errorf("read journal segment %q: %w: %s", s.path, ErrTrimmed, commits(f.before.number+1, w.before.number))
	}
	if err == nil && s.first == f.segment {
		w.offset, w.before = f.offset, f.before
	}
	w.limit = limit
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.segment, f.offset, f.before = s.first, w.offset, w.before
		var h header
		var raw []byte
		if h, raw, err = w.next(); err == nil {
			if err := deliverCommit(&f.commits, f.folder.incarnation.ID, h, raw, fn); err != nil {
				return err
			}
		}
	}
	return f.checkEnd(s, w, limit, err)
}

// checkEnd returns an error where a segment must not end at the walker's offset. why ended the walk.
func (f *follower) checkEnd(s *segment, w *walker, limit uint64, why error) error {
	last := limit == math.MaxUint64
	damaged := func(first, until uint64) error {
		return (&DamageError{File: s.path, Offset: w.offset, First: first, Last: until, After: instant(w.before.received), Reason: why}).withHint(&f.opts)
	}
	switch bad := (errBad{}); {
	case errors.Is(why, io.EOF) && (last || w.before.number+1 >= limit):
		return nil
	case errors.Is(why, errVersion):
		return newerError(s.path)
	case errors.Is(why, io.EOF):
		why = errShort
		return damaged(w.before.number+1, limit-1)
	case !errors.As(why, &bad):
		return fmt.Errorf("read journal segment %q: %w", s.path, why)
	case !last:
		return damaged(w.before.number+1, limit-1)
	case w.offset == 0:
		return damaged(s.first, ToEnd)
	}
	first, offset := w.before.number+1, w.offset
	later, found, err := w.skip()
	switch {
	case err != nil:
		return fmt.Errorf("read journal segment %q: %w", s.path, err)
	case found:
		w.offset = offset
		return damaged(first, later.number-1)
	}
	return nil // being written, or torn when the process stopped
}
