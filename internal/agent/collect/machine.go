package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/item"
)

// machine reads the values of items from the local computer. It keeps the counters of the previous collection.
type machine struct {
	root string // of /proc; empty: /
	host string
	boot func() time.Duration
	run  func(ctx context.Context, command string) (output string, err error)

	mu     sync.Mutex
	memory map[string][]float64 // counters of the last collection, by key, for collectors that compare two

	samples counterSamples // of performance counters, on Windows
}

// pathInRoot returns the path of a file below a folder in place of /. Without that folder, Windows has no common root.
func pathInRoot(root, path string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join(root, path)
	}
	return filepath.Join("/", root, path)
}

// exchangeCounters stores an item's new counters and returns the counters of its previous collection. The result is nil
// after the first collection.
func (m *machine) exchangeCounters(k *Key, now []float64) (before []float64) {
	id := k.Name + " " + strings.Join(k.Parameters, ",")
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.memory[id] = m.memory[id], now
	return before
}

// read returns the content of a file of the kernel, such as /proc/stat.
func (m *machine) read(path string) (string, error) {
	data, err := os.ReadFile(pathInRoot(m.root, path))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("this machine has no file %s", path)
	}
	return string(data), err
}

// errUnknownMode returns the error for an item key with a parameter outside the allowed values.
func errUnknownMode(k *Key, i int, allowed ...string) error {
	return fmt.Errorf("%s: the parameter %q is unknown; write one of %s", k.Name, k.Parameter(i, ""), strings.Join(allowed, ", "))
}

// maxList bounds a list in JSON, in bytes: a part of one would be useless.
const maxList = 256 << 10

// jsonValue encodes v as JSON and returns the text as an item value.
func jsonValue(v any) (item.Value, error) {
	text, err := json.Marshal(v)
	if len(text) > maxList {
		return item.Value{}, fmt.Errorf("the list has %d KiB, at most %d", len(text)>>10, maxList>>10)
	}
	return item.FromText(string(text)), err
}
