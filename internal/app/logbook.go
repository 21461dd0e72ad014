package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sdnotify"
)

// bookKept is how much of the log stays in memory, in bytes, for
// `muster debug bundle`: the last minutes, or the last hours of a quiet server.
const bookKept = 512 << 10

// Logbook is where the log goes: a file or standard error, and the last of it in
// memory. It is an io.Writer of whole lines; safe for concurrent use.
type Logbook struct {
	path  string // empty: out is not ours
	plain bool   // whoever reads out stamps lines himself: theirs go without
	level slog.LevelVar

	mu   sync.Mutex
	out  io.Writer
	file *os.File
	last []byte // the newest lines, whole; at most twice bookKept
}

// OpenLogbook opens the log that the settings name; without a file it goes to stderr. Where
// that is the journal, text goes there without the time that the journal gives each line;
// the book keeps it. stream is JOURNAL_STREAM of the environment.
func OpenLogbook(cfg *config.Server, stderr io.Writer, stream string) (*Logbook, error) {
	b := &Logbook{path: cfg.LogFile, out: stderr, plain: cfg.LogFile == "" && sdnotify.InJournal(stream, stderr)}
	b.level.Set(levelOf(cfg.LogLevel))
	if b.path == "" {
		return b, nil
	}
	if err := os.MkdirAll(filepath.Dir(b.path), 0o700); err != nil {
		return nil, noLog(fmt.Errorf("make folder of the log: %w", err), b.path)
	}
	if err := b.Reopen(); err != nil {
		return nil, noLog(err, b.path)
	}
	return b, nil
}

// noLog says what to type where the log cannot be written.
func noLog(err error, path string) error {
	err = explain(err, filepath.Dir(path))
	if model.ClassOf(err) == model.Internal {
		return model.Errorf(model.Invalid, "%w", err).WithHint("choose another folder with --data, or another file with --log-file")
	}
	return err
}

// Logger writes into the book, in the format of the settings.
func (b *Logbook) Logger(format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: &b.level, ReplaceAttr: model.Logged}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(b, o))
	}
	return slog.New(slog.NewTextHandler(b, o))
}

// Reopen opens the file anew by its name, so that what moved it away (logrotate) has
// the old one to itself. If that fails, the log goes on where it went.
func (b *Logbook) Reopen() error {
	if b.path == "" {
		return nil
	}
	file, err := os.OpenFile(b.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	b.mu.Lock()
	old := b.file
	b.file, b.out = file, file
	b.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write implements io.Writer.
func (b *Logbook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = append(b.last, line...)
	if over := len(b.last) - bookKept; over > bookKept {
		rest := b.last[over:]
		b.last = append(b.last[:0], rest[bytes.IndexByte(rest, '\n')+1:]...)
	}
	if b.plain && bytes.HasPrefix(line, []byte(slog.TimeKey+"=")) {
		if _, err := b.out.Write(line[bytes.IndexByte(line, ' ')+1:]); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	return b.out.Write(line)
}

// Tail is a copy of the last lines, oldest first.
func (b *Logbook) Tail() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	tail := b.last
	if over := len(tail) - bookKept; over > 0 {
		tail = tail[over:]
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	return bytes.Clone(tail)
}
