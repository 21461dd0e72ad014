// Package attempt counts the crashes of the server during work that runs the programs, scripts and templates of its users:
// deliveries and the evaluation of filters. Work that was under way at several crashes may cause them, and is not tried
// again.
//
// In: keys of work that begins and ends. Out: crashes by key. A Log is a file with one line for each beginning and end.
// No write is synced, because the file survives the end of the process, and a crash of the machine counts for nothing. No
// goroutines; a Log has one lock, and is safe for concurrent use. Start reading at Log.Start.
package attempt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
)

// MaxCrashes is the number of crashes after which the server does not try the work again.
const MaxCrashes = 3

const (
	// header is the first line of the file, with the version of its format. Each further line has the number of crashes
	// of a key, and the key in quotation marks; the last line of a key counts. A key under way has one crash more, which
	// is true if its end is never written.
	header = "attempts 1\n"
	// maxFile is the size in bytes above which the file is written anew.
	maxFile = 1 << 20
	// maxKeys is the most keys with crashes that a start keeps, more than are under way at some crashes.
	maxKeys = 10_000
)

// CrashLog counts how often the server crashed during a piece of work, such as a delivery. The counts are in a
// file, per key of the work. A nil Log counts none.
type CrashLog struct {
	mu      sync.Mutex
	path    string
	file    *os.File
	size    int
	crashes map[string]int // crashes by key; a key without crashes is absent
	running map[string]int // attempts under way by key
}

// Open opens the file of crash counts and reads the counts. A missing file counts as empty. Keys that were under way
// when the last process ended have one crash more. A damaged file counts as empty.
func Open(path string) (*CrashLog, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the file of crash counts: %w", err)
	}
	l := &CrashLog{path: path, crashes: parseCrashes(data), running: map[string]int{}}
	if len(l.crashes) > maxKeys {
		clear(l.crashes)
	}
	return l, l.compact()
}

// parseCrashes returns the crash count of each piece of work in the file's content. The last line may be cut.
func parseCrashes(data []byte) map[string]int {
	crashes := map[string]int{}
	lines, ok := bytes.CutPrefix(data, []byte(header))
	for ok {
		var line []byte
		if line, lines, ok = bytes.Cut(lines, []byte("\n")); !ok {
			break
		}
		number, quoted, _ := bytes.Cut(line, []byte(" "))
		n, err := strconv.Atoi(string(number))
		key, bad := strconv.Unquote(string(quoted))
		switch {
		case err != nil || bad != nil:
		case n > 0:
			crashes[key] = n
		default:
			delete(crashes, key)
		}
	}
	return crashes
}

// Crashes returns how often the server has crashed while a piece of work was in progress. It counts since that work
// last ended normally.
func (l *CrashLog) Crashes(key string) int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crashes[key]
}

// Start records that a piece of work begins, such as the delivery of a message. It returns the function that records
// the end. end notes its end: the key has no crashes then.
func (l *CrashLog) Start(key string) (end func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[key]++
	l.write(l.crashes[key]+1, key)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[key]--; l.running[key] == 0 {
			delete(l.running, key)
			l.resetCount(key)
		}
	}
}

// Forget sets the crash count of a piece of work to zero.
func (l *CrashLog) Forget(key string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resetCount(key)
}

// resetCount sets the crash count of a piece of work to zero, while the caller holds the lock. The caller holds
// mu.
func (l *CrashLog) resetCount(key string) {
	delete(l.crashes, key)
	l.write(0, key)
}

// write appends the crash count of a piece of work to the file. A line that cannot be written is lost: its crash does
// not count. The caller holds mu.
func (l *CrashLog) write(crashes int, key string) {
	if l.size > maxFile && l.compact() == nil {
		return // the new file has the line
	}
	n, _ := fmt.Fprintf(l.file, "%d %q\n", crashes, key)
	l.size += n
}

// compact replaces the file by a shorter one, with only the latest count of each piece of work. The caller
// holds mu, or is Open.
func (l *CrashLog) compact() error {
	var b bytes.Buffer
	b.WriteString(header)
	for key, n := range l.crashes {
		if l.running[key] == 0 {
			fmt.Fprintf(&b, "%d %q\n", n, key)
		}
	}
	for key := range l.running {
		fmt.Fprintf(&b, "%d %q\n", l.crashes[key]+1, key)
	}
	if err := os.WriteFile(l.path+".new", b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the file of crash counts: %w", err)
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		return fmt.Errorf("write the file of crash counts: %w", err)
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("write the file of crash counts: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = file, b.Len()
	return nil
}

// Close closes the file.
func (l *CrashLog) Close() error { return l.file.Close() }
