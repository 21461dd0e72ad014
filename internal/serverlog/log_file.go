// Package serverlog writes the server's log, reopens its file for logrotate, and keeps the last lines
// for the support bundle. One mutex covers the file and those lines.
package serverlog

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/muster-fleet/muster/internal/config"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sdnotify"
)

// tailBytes is how much of the log stays in memory, in bytes, for
// `muster debug bundle`: the last minutes, or the last hours of a quiet server.
const tailBytes = 512 << 10

// Log writes the server's log, and keeps its last lines in memory. The log goes to a file or to standard error. It is
// an io.Writer of whole lines; safe for concurrent use.
type Log struct {
	path  string // of the file; empty: out is standard error
	plain bool   // lines of text go to out without a time
	level slog.LevelVar

	mu   sync.Mutex
	out  io.Writer
	file *os.File
	last []byte // the newest lines, whole; at most twice tailBytes
}

// Open opens the server's log, a file or standard error, with the configured level. Without a log file in the
// settings, the log goes to stderr. Where stderr is systemd's journal, lines of text go there without a time,
// which the journal adds; the lines in memory keep it. stream is JOURNAL_STREAM of the environment.
func Open(cfg *config.Server, stderr io.Writer, stream string) (*Log, error) {
	l := &Log{path: cfg.LogFile, out: stderr, plain: cfg.LogFile == "" && sdnotify.InJournal(stream, stderr)}
	l.level.Set(levelByName(cfg.LogLevel))
	if l.path == "" {
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return nil, openLogError(fmt.Errorf("create the folder of the log file: %w", err), l.path)
	}
	if err := l.Reopen(); err != nil {
		return nil, openLogError(err, l.path)
	}
	return l, nil
}

// openLogError returns the error for a log file that cannot be opened. The error has a hint.
func openLogError(err error, path string) error {
	err = datadir.ExplainFileError(err, filepath.Dir(path))
	if model.ClassOf(err) == model.Internal {
		return model.Errorf(model.Invalid, "%w", err).WithHint("choose another folder with --data, or another file with --log-file")
	}
	return err
}

// Logger returns a logger that writes lines in JSON or as text.
func (l *Log) Logger(format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: &l.level, ReplaceAttr: model.LogAttr}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(l, o))
	}
	return slog.New(slog.NewTextHandler(l, o))
}

// Reopen opens the log file again by name, after logrotate has moved the old file. After an error the log goes on in
// the old file.
func (l *Log) Reopen() error {
	if l.path == "" {
		return nil
	}
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	l.mu.Lock()
	old := l.file
	l.file, l.out = file, file
	l.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write writes one log line to the file, and keeps the line in memory.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, line...)
	if over := len(l.last) - tailBytes; over > tailBytes {
		rest := l.last[over:]
		l.last = append(l.last[:0], rest[bytes.IndexByte(rest, '\n')+1:]...)
	}
	if l.plain && bytes.HasPrefix(line, []byte(slog.TimeKey+"=")) {
		if _, err := l.out.Write(line[bytes.IndexByte(line, ' ')+1:]); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	return l.out.Write(line)
}

// Tail returns a copy of the newest log lines from memory, oldest first.
func (l *Log) Tail() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.last
	if over := len(tail) - tailBytes; over > 0 {
		tail = tail[over:]
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	return bytes.Clone(tail)
}

// SetLevel sets the lowest level of messages that the server logs from now on. The levels are debug, info, warn
// and error.
func (l *Log) SetLevel(level string) { l.level.Set(levelByName(level)) }

// levelByName converts the name of a level to its slog.Level. The name was validated before.
func levelByName(text string) slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(text)) // config has checked it
	return l
}
