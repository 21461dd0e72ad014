package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Read calls fn with each commit after a journal position, oldest first. Each commit is checked against the one
// before while it is read; damage is a *DamageError.
func (l *Log) Read(ctx context.Context, from Position, fn func(Commit) error) error {
	return l.readCommits(ctx, from, false, fn)
}

// ReadUndamaged calls fn with each commit after a journal position, and skips damaged commits. It is for a
// reader that can use the rest, such as a spool.
func (l *Log) ReadUndamaged(ctx context.Context, from Position, fn func(Commit) error) error {
	return l.readCommits(ctx, from, true, fn)
}

// readCommits calls fn with each commit after a journal position, and skips or reports damaged commits. If
// skipDamaged is true it skips damaged commits, else it returns an error for them.
func (l *Log) readCommits(ctx context.Context, from Position, skipDamaged bool, fn func(Commit) error) error {
	from, err := l.Resolve(from)
	if err != nil {
		return err
	}
	segments, head, err := l.segmentsAbove(from.Number)
	if err != nil {
		return err
	}
	for _, s := range segments {
		err := l.readSegment(ctx, &s, from.Number, min(s.last, head), skipDamaged, fn)
		if damage := (*DamageError)(nil); skipDamaged && (errors.As(err, &damage) || errors.Is(err, ErrTrimmed)) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// FolderDeleted reports whether somebody deleted or emptied the folder of an open log. Later commits are then lost.
func (l *Log) FolderDeleted() bool {
	f, err := l.opts.FS.Open(filepath.Join(l.dir, formatFile))
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// segmentsAbove returns copies of the segments that contain any commit above a commit number. It also returns
// the number of the log's last commit.
func (l *Log) segmentsAbove(from uint64) ([]segment, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, 0, ErrClosed
	case from > l.head.number:
		return nil, 0, ErrAhead
	case from+1 < l.segments[0].first:
		return nil, 0, ErrTrimmed
	}
	var list []segment
	for _, s := range l.segments {
		if s.last > from && s.last >= s.first {
			list = append(list, *s) // commitOffsets is shared: the log only appends to it
		}
	}
	return list, l.head.number, nil
}

// readSegment reads the commits between two commit numbers from one segment. If skipDamaged is true it skips
// damaged commits.
func (l *Log) readSegment(ctx context.Context, s *segment, from, to uint64, skipDamaged bool, fn func(Commit) error) error {
	file, err := l.opts.FS.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrTrimmed // cut meanwhile
	}
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	w, err := newCommitWalker(file, l.folder.isKnown)
	if err == nil {
		if at, known := s.nearestOffset(from + 1); known && at > segmentHeaderSize {
			w.offset, w.afterJump = at, true
		}
		w.limit = to + 1
	}
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		var h commitHeader
		var raw []byte
		h, raw, err = w.nextCommit()
		if bad := (invalidBytesError{}); skipDamaged && errors.As(err, &bad) {
			if _, found, skipErr := w.skipToWholeCommit(); skipErr != nil || found {
				err, raw = skipErr, nil
			}
		}
		if err != nil || raw == nil || h.number <= from {
			continue
		}
		if err := deliverCommit(&l.commits, l.folder.incarnation.ID, h, raw, fn); err != nil {
			return err
		}
	}
	if bad := (invalidBytesError{}); !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
		return fmt.Errorf("read journal segment %q: %w", s.path, err)
	}
	return w.requireCommitsRead(&l.opts, s, to, err)
}

// deliverCommit decodes a commit and calls a function with the decoded Commit. raw is header and body.
func deliverCommit(pool *sync.Pool, log uint64, h commitHeader, raw []byte, fn func(Commit) error) error {
	c := newCommit(pool)
	defer c.Release()
	c.log = log
	if err := c.copyVerified(h, raw[commitHeaderSize:]); err != nil {
		return fmt.Errorf("read commit %d: %w", h.number, err)
	}
	return fn(c)
}

// Follow reads the commits of a journal that another process may be writing, oldest first. It takes no lock and
// changes nothing. It uses the option FS alone. Each commit is verified against its predecessor; damage is a
// *DamageError, and a folder without a journal is NotFound.
//
// At the end Follow calls more, which waits and returns whether to read on. A commit may not be durable
// yet, and after a failed write an entry may come again in another commit: callers that count must
// deduplicate. A segment that was cut before it was read is ErrTrimmed.
func Follow(ctx context.Context, dir string, o Options, more func() bool, fn func(Commit) error) error {
	f := &followPosition{dir: dir, opts: o.withDefaults(dir)}
	for {
		if err := f.readPresentCommits(ctx, fn); err != nil {
			return err
		}
		if !more() {
			return nil
		}
	}
}

// followPosition is the position of a reader in a log that another process writes.
type followPosition struct {
	dir     string
	opts    Options
	folder  *folderFormat
	commits sync.Pool
	segment uint64     // first number of the present segment; zero: nothing is read yet
	offset  int64      // of the next commit in it
	before  checkpoint // state that the next commit continues
}

// readPresentCommits reads all commits that the log's files contain now, from the follower's position on.
func (f *followPosition) readPresentCommits(ctx context.Context, fn func(Commit) error) (err error) {
	if f.folder, err = readFormatFile(f.opts.FS, f.dir); err != nil {
		return err
	}
	if f.folder == nil {
		return model.Errorf(model.NotFound, "folder %q has no journal", f.dir).WithHint("name the server's data folder: --data DIR")
	}
	segments, err := listSegments(&f.opts, f.dir)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if s.first >= f.segment {
			if err := f.readSegment(ctx, s, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSegment reads the rest of one segment up to its last complete commit.
func (f *followPosition) readSegment(ctx context.Context, s *segment, fn func(Commit) error) error {
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
	w, err := newCommitWalker(file, f.folder.isKnown)
	if err == nil && f.segment != 0 && w.before.number > f.before.number {
		return fmt.Errorf("read journal segment %q: %w (missing: %s)", s.path, ErrTrimmed, describeCommits(f.before.number+1, w.before.number))
	}
	if err == nil && s.first == f.segment {
		w.offset, w.before = f.offset, f.before
	}
	w.limit = s.limit
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.segment, f.offset, f.before = s.first, w.offset, w.before
		var h commitHeader
		var raw []byte
		if h, raw, err = w.nextCommit(); err == nil {
			if err := deliverCommit(&f.commits, f.folder.incarnation.ID, h, raw, fn); err != nil {
				return err
			}
		}
	}
	_, err = w.checkSegmentEnd(&f.opts, s, err)
	return err
}
