package collect

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// logMachine simulates a machine with a log and an agent that follows the log.
type logMachine struct {
	t         *testing.T
	root      string
	key       string
	now       time.Time
	positions map[string][]byte
	wheel     *Scheduler
	values    []string // that the agent emitted
	full      bool
}

// newLogMachine returns a machine with an agent that follows a log.
func newLogMachine(t *testing.T, key string) *logMachine {
	m := &logMachine{t: t, root: tempFolder(t), key: key, now: time.Unix(1_790_000_000, 0), positions: map[string][]byte{}}
	m.start()
	return m
}

// start starts the simulated agent again, with the read positions that were stored before.
func (m *logMachine) start() {
	m.wheel = New(Config{
		Root: m.root, Boot: func() time.Duration { return time.Duration(m.now.UnixNano()) }, Wall: func() time.Time { return m.now },
		Position: func(name string) []byte { return m.positions[name] }, Full: func() bool { return m.full }, Log: slog.New(slog.DiscardHandler),
		Emit: func(s *wire.Signal, at *Position) {
			if at != nil {
				m.positions[at.Name] = at.Value
			}
			if s == nil {
				return
			}
			var b wire.ValueBlock
			var r wire.ColumnReader
			var v wire.BlockValue
			testenv.NoError(m.t, b.Decode(s.Body))
			testenv.NoError(m.t, r.Reset(&b))
			for r.Next(&v) {
				text := strings.Clone(v.Value.String())
				if v.Unsupported {
					text = "unsupported: " + text
				}
				m.values = append(m.values, text)
			}
			testenv.NoError(m.t, r.Err())
			if b.Rows > 100 {
				m.t.Errorf("%d lines in one block, at most 100", b.Rows)
			}
			if !slices.IsSorted(r.Times()) {
				m.t.Errorf("times %v", r.Times())
			}
		},
	})
	m.wheel.Set([]*model.TemplateDefinition{{Definition: model.Definition{ID: 5, Unit: 1000}, Items: []model.Item{{Key: m.key, Type: "log", Interval: "10s"}}}}, nil)
}

// collect advances the clock by ten seconds and collects the log once.
func (m *logMachine) collect() {
	m.now = m.now.Add(10 * time.Second)
	m.wheel.collect(m.t.Context(), m.wheel.groups[0])
}

// write appends text to a file, and sets the file's modification time to the simulated clock.
func (m *logMachine) write(name, text string) {
	path := filepath.Join(m.root, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testenv.NoError(m.t, err)
	_, err = f.WriteString(text)
	testenv.NoError(m.t, err)
	testenv.NoError(m.t, f.Close())
	testenv.NoError(m.t, os.Chtimes(path, m.now, m.now))
}

// expectValues fails the test unless exactly the given values have arrived since the last call.
func (m *logMachine) expectValues(values ...string) {
	m.t.Helper()
	for i := range max(len(m.values), len(values)) {
		if i >= len(m.values) || i >= len(values) || m.values[i] != values[i] {
			m.t.Errorf("%d values from %q, want %d from %q", len(m.values), m.values[min(i, len(m.values)):min(i+3, len(m.values))], len(values), values[min(i, len(values)):min(i+3, len(values))])
			break
		}
	}
	m.values = nil
}

// TestLogsAreFollowedAcrossRotation writes numbered lines while the log is rotated, and expects each line once. The
// log is rotated by renaming and by copying, and the agent restarts at random times. Each line arrives once and in
// order.
func TestLogsAreFollowedAcrossRotation(t *testing.T) {
	seeds := uint64(60)
	if runtime.GOOS == "windows" { // Wine is slow
		seeds = 6
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		key := "log[/app.log]"
		if seed%3 == 2 {
			key = `logrt["/^app\.log"]`
		}
		m := newLogMachine(t, key)
		var want []string
		rotate := func(copied bool) {
			for i := 3; i > 0; i-- {
				_ = os.Rename(filepath.Join(m.root, fmt.Sprint("app.log.", i)), filepath.Join(m.root, fmt.Sprint("app.log.", i+1)))
			}
			from, to := filepath.Join(m.root, "app.log"), filepath.Join(m.root, "app.log.1")
			if copied {
				data, err := os.ReadFile(from)
				testenv.NoError(t, err)
				m.write("app.log.1", string(data))
				testenv.NoError(t, os.Truncate(from, 0))
				m.now = m.now.Add(time.Second)
				testenv.NoError(t, os.Chtimes(from, m.now, m.now))
				return
			}
			testenv.NoError(t, os.Rename(from, to))
			if r.IntN(2) == 0 { // the writer has the old file open
				want = append(want, fmt.Sprint("line ", len(want)))
				m.write("app.log.1", want[len(want)-1]+"\n")
			}
			m.now = m.now.Add(time.Second)
			m.write("app.log", "")
		}
		m.write("app.log", "")
		m.collect() // copies of a log that was never read are not followed
		for range 120 {
			m.now = m.now.Add(time.Second)
			switch r.IntN(8) {
			case 0:
				rotate(seed%2 == 0)
				m.collect()
				m.collect()
			case 1:
				m.start()
			case 2, 3:
				m.collect()
			case 4:
				want = append(want, "in two "+fmt.Sprint(len(want)))
				m.write("app.log", "in two ")
				m.collect()
				m.write("app.log", fmt.Sprint(len(want)-1)+"\r\n")
			default:
				for range r.IntN(20) {
					want = append(want, fmt.Sprint("line ", len(want)))
					m.write("app.log", want[len(want)-1]+"\n")
				}
			}
		}
		m.write("app.log", "last\n")
		for range 4 {
			m.collect()
		}
		if m.expectValues(append(want, "last")...); t.Failed() {
			t.Fatalf("seed %d, %s", seed, key)
		}
	}
}

// TestLogItemsReturnLines collects log items with different parameters, and compares the value of each line.
func TestLogItemsReturnLines(t *testing.T) {
	m := newLogMachine(t, `log[/var.log,"error (\d+)",,2,skip,code \1]`)
	m.collect()
	if len(m.values) != 1 || !strings.Contains(m.values[0], "does not exist") {
		t.Errorf("without a file: %q", m.values)
	}
	m.values = nil
	m.write("var.log", "error 1\nbegin of a li")
	m.collect()
	m.expectValues()
	m.write("var.log", "ne\nerror 2\nfine\nerror 3 and more\n")
	m.full = true
	m.collect()
	m.expectValues()
	m.full = false
	m.collect()
	m.expectValues("code 2", "code 3")
	for i := range 50 { // 2 lines a second
		m.write("var.log", fmt.Sprintf("error %d\n", 100+i))
	}
	m.collect()
	if len(m.values) != 20 || m.values[19] != "code 119" {
		t.Errorf("%q", m.values)
	}
	m.collect()
	m.collect()
	if len(m.values) != 50 || m.values[49] != "code 149" {
		t.Errorf("%q", m.values)
	}
	m.values = nil
	m.write("var.log", "error 7 \xff"+strings.Repeat("x", 3*maxText)+"\nerror 8\n")
	m.collect()
	m.expectValues("code 7", "code 8")
	testenv.NoError(t, os.Remove(filepath.Join(m.root, "var.log")))
	m.collect()
	if len(m.values) != 1 || !strings.HasPrefix(m.values[0], "unsupported") {
		t.Errorf("after the removal: %q", m.values)
	}

	c := newLogMachine(t, `log.count[/var.log,error]`)
	c.write("var.log", "error\nfine\nerror\n")
	c.collect()
	c.collect()
	c.start()
	c.write("var.log", "error\n")
	c.collect()
	c.expectValues("2", "0", "1")

	d := newLogMachine(t, `log[/var.log,,,1,,,20]`)
	for i := range 1000 {
		d.write("var.log", fmt.Sprintf("line %03d\n", i))
	}
	for range 4 {
		d.collect()
	}
	e := newLogMachine(t, "log[/var.log]")
	e.write("var.log", strings.Repeat("line\n", 1000))
	if e.collect(); len(e.values) != 1000 {
		t.Errorf("%d of 1000 lines", len(e.values))
	}
	if last := d.values[len(d.values)-1]; last != "line 999" || len(d.values) > 40 {
		t.Errorf("with 20 s of delay: %d lines, the last one %q", len(d.values), last)
	}
}

// TestInvalidLogKeysAreRefused expects an error with a reason for each wrong parameter of a log item.
func TestInvalidLogKeysAreRefused(t *testing.T) {
	for key, want := range map[string]string{
		"log[/a,b,utf-8,100,skip,\\1,5,copytruncate,/var/lib]": "", "logrt.count[\"/var/log/^a$\",b,,,all,10,rotate]": "", "log": "not an absolute path",
		"log[a]": "not an absolute path", "log[/var/]": "is a folder", "log[/a,(]": "missing closing", "log[/a,@all]": "global regular expressions", "log[/a,,utf-16]": "UTF-8 only",
		"log[/a,,,0]": "is not between", "log[/a,,,,new]": "neither all nor skip", "log[/a,,,,,,x]": "not a number of seconds", "log[/a,,,,,,,x]": "unknown option", "logrt[/(]": "names of files",
	} {
		if err := Check(key); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}

// FuzzLogPosition decodes random bytes as a stored log position, and expects an error or a valid position.
// Encoding and decoding must not change a valid position.
func FuzzLogPosition(f *testing.F) {
	f.Add((&logPosition{Inode: 7, Offset: 300, Tail: 256, Sum: 1, MtimeN: 5}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, ok := decodeLogPosition(data)
		if again, also := decodeLogPosition(p.encode()); !also || again != p || !ok && p != (logPosition{}) {
			t.Fatalf("%+v, again %+v", p, again)
		}
	})
}
