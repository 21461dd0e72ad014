package collect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// TestParseKey parses Zabbix item keys with parameters, and expects errors for invalid keys.
func TestParseKey(t *testing.T) {
	for text, want := range map[string][]string{
		"agent.ping": nil, "system.cpu.load[]": {""}, "system.cpu.load[all,avg1]": {"all", "avg1"},
		`proc.num["a, \"b\"",,all]`: {`a, "b"`, "", "all"}, "vfs.fs.size[/, pused]": {"/", "pused"}, "x[[a,b],c]": {"a,b", "c"},
	} {
		if k, err := ParseKey(text); err != nil || !slices.Equal(k.Parameters, want) {
			t.Errorf("%s: %q, error %v, want %q", text, k.Parameters, err, want)
		}
	}
	for _, text := range []string{"", "a b", "a[", "a[x", `a["x]`, "a[x]y", "a[[x]"} {
		if k, err := ParseKey(text); err == nil {
			t.Errorf("%q is parsed as %+v", text, k)
		}
	}
}

// FuzzParseKey parses random texts as item keys and expects a key or an error, never a panic
func FuzzParseKey(f *testing.F) {
	f.Add(`proc.num["a, \"b\"",,[all]]`)
	f.Add(`log[/var/log/app,"(\d+)",utf-8,100,skip,\1,5,rotate]`)
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err == nil && k.Name == "" {
			t.Fatalf("%q has no name", text)
		}
		if l, failed := parseLogItem(&k, text, ""); err == nil && failed == nil && (l.rate < 1 || l.rate > maxLineRate || !strings.HasPrefix(l.dir, "/")) {
			t.Fatalf("%q: %+v", text, l)
		}
	})
}

// testMachine writes simulated files of /proc into a temporary folder, as the root of a test machine.
func testMachine(t *testing.T) string {
	root := t.TempDir()
	for name, text := range map[string]string{
		"loadavg": "1.50 0.75 0.25 2/345 6789\n", "uptime": "12345.67 23456.78\n",
		"stat":     "cpu  100 0 50 850 0 0 0 0\ncpu0 100 0 50 850 0 0 0 0\nintr 1\n",
		"meminfo":  "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 250 kB\nSwapTotal: 0 kB\n",
		"net/dev":  "Inter-|\n face |\n  eth0: 18446744073709551615 2 3 4 0 0 0 0 50 6 7 8 0 0 0 0\n",
		"1/status": "Name:\tinit\nState:\tS (sleeping)\n", "20/status": "Name:\tworker\nState:\tR (running)\n", "21/status": "Name:\tworker\nState:\tS (sleeping)\n",
	} {
		path := filepath.Join(root, "proc", name)
		testenv.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testenv.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// TestItemsDueTogetherShareOneMessage collects items with the same due time, and expects all values in one
// message. Each interval has a message. An unsupported item has a reason.
func TestItemsDueTogetherShareOneMessage(t *testing.T) {
	root := testMachine(t)
	keys := map[string]item.Value{
		"net.if.in[eth0]": item.FromUnsigned(1<<64 - 1), "net.if.in[{$IF}]": item.FromUnsigned(1<<64 - 1), "net.if.out[eth0,packets]": item.FromUnsigned(6), "proc.num[worker]": item.FromUnsigned(2),
		"proc.num[,,run]": item.FromUnsigned(1), "system.cpu.load[percpu,avg5]": item.FromFloat(0.75), "system.cpu.num": item.FromUnsigned(1), "system.cpu.discovery": item.FromText(`[{"{#CPU.NUMBER}":0,"{#CPU.STATUS}":"online"}]`),
		"system.uptime": item.FromUnsigned(12345), "vm.memory.size[pavailable]": item.FromFloat(25),
	}
	definition := &model.TemplateDefinition{Definition: model.Definition{ID: 5, Unit: 1000}}
	for key := range keys {
		definition.Items = append(definition.Items, model.Item{Key: key, Interval: "10s"})
	}
	definition.Items = append(definition.Items, model.Item{Key: "net.if.in[eth9]", Interval: "10s"},
		model.Item{Key: "nosuch", Interval: "10s"}, model.Item{Key: "made", From: "nosuch"})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var blocks []*wire.Signal
		w := New(Config{
			Node: uuid.MustParse("0192f0c4-7e2a-7b1d-9c55-3f6a1e0d4b21"), Root: root, FirstWithin: time.Second,
			Boot: func() time.Duration { return time.Since(began) }, Emit: func(s *wire.Signal, _ *Position) { blocks = append(blocks, s) },
		})
		go w.Run(t.Context())
		w.Set([]*model.TemplateDefinition{definition}, func(name string) ([]byte, string, bool) { return []byte(`"eth0"`), "", name == "{$IF}" })
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if len(blocks) != 4 {
			t.Fatalf("%d blocks in 35 s, want the early first one and 3", len(blocks))
		}
		var b wire.ValueBlock
		testenv.NoError(t, b.Decode(blocks[3].Body))
		if b.Macros != `{"{$IF}":"eth0"}` {
			t.Errorf("macros %s", b.Macros)
		}
		var r wire.ColumnReader
		testenv.NoError(t, r.Reset(&b))
		var v wire.BlockValue
		for r.Next(&v) {
			key := definition.Items[v.Position].Key
			if want, ok := keys[key]; v.Unsupported == ok || ok && v.Value != want {
				t.Errorf("%s = %v, unsupported %v, want %v", key, v.Value, v.Unsupported, want)
			}
		}
		if r.Err() != nil || b.Rows != uint32(len(keys)+2) {
			t.Errorf("%d values, error %v", b.Rows, r.Err())
		}
	})
}

//go:generate go test . -run TestReferencePageIsUpToDate -update

// TestReferencePageIsUpToDate compares docs/reference/keys.md with the table of collectors.
func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, "../../../docs/reference/keys.md", Reference())
}

// TestBlockedItemDelaysNoOtherItem starts a collector that never returns, and expects all other items on time.
// The silent item has a reason in place of a value.
func TestBlockedItemDelaysNoOtherItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, runs, release := time.Now(), 0, make(chan struct{})
		var blocks []*wire.Signal
		w := New(Config{Boot: func() time.Duration { return time.Since(began) }, Emit: func(s *wire.Signal, _ *Position) { blocks = append(blocks, s) }})
		w.collectors["vfs.fs.size"] = collector{"[path]", func(context.Context, *machine, *Key) (item.Value, error) {
			runs++
			<-release
			return item.FromUnsigned(7), nil
		}, "", true, everywhere}
		go w.Run(t.Context())
		interval := model.Interval("10s")
		w.Set([]*model.TemplateDefinition{{Definition: model.Definition{ID: 5, Unit: 1000}, Items: []model.Item{{Key: "vfs.fs.size[/]", Interval: interval}, {Key: "agent.ping", Interval: interval}}}}, noProperties)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if runs != 1 || len(blocks) != 3 {
			t.Errorf("%d runs and %d blocks, want 1 and 3", runs, len(blocks))
		}
		close(release)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for i, signal := range blocks {
			var b wire.ValueBlock
			testenv.NoError(t, b.Decode(signal.Body))
			var r wire.ColumnReader
			testenv.NoError(t, r.Reset(&b))
			var v wire.BlockValue
			for r.Next(&v) {
				if silent := i < 3; v.Position == 0 && v.Unsupported != silent || v.Position == 1 && v.Value != item.FromUnsigned(1) {
					t.Errorf("block %d, item %d: %v, unsupported %v", i, v.Position, v.Value, v.Unsupported)
				}
			}
		}
	})
}

// TestSlowWebPagesDelayNoFileSystemItem collects many web pages that never answer, and expects a file system's
// values on time.
func TestSlowWebPagesDelayNoFileSystemItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, runs := time.Now(), 0
		w := New(Config{Boot: func() time.Duration { return time.Since(began) }, Emit: func(*wire.Signal, *Position) {}})
		w.collectors["web.page.get"] = collector{"[host]", func(ctx context.Context, _ *machine, _ *Key) (item.Value, error) {
			<-ctx.Done()
			return item.Value{}, ctx.Err()
		}, "", true, everywhere}
		w.collectors["vfs.fs.size"] = collector{"[path]", func(context.Context, *machine, *Key) (item.Value, error) {
			runs++
			return item.FromUnsigned(7), nil
		}, "", true, everywhere}
		go w.Run(t.Context())
		interval := model.Interval("10s")
		var pages []model.Item
		for i := range 10 * maxWaiting {
			pages = append(pages, model.Item{Key: fmt.Sprintf("web.page.get[%03d]", i), Interval: interval})
		}
		w.Set([]*model.TemplateDefinition{
			{Definition: model.Definition{ID: 5, Unit: 1000}, Items: pages},
			{Definition: model.Definition{ID: 6, Unit: 1001}, Items: []model.Item{{Key: "vfs.fs.size[/]", Interval: interval}}},
		}, noProperties)
		time.Sleep(65 * time.Second)
		synctest.Wait()
		if runs < 6 {
			t.Errorf("the file system was measured %d times in 65 s, want 6", runs)
		}
	})
}

// TestValueBlocksAreBounded collects 250 items at one time, and expects the values in three blocks (messages),
// each once.
func TestValueBlocksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, got := time.Now(), map[uint32]int{}
		var rows []uint32
		w := New(Config{Boot: func() time.Duration { return time.Since(began) }, Emit: func(s *wire.Signal, _ *Position) {
			var b wire.ValueBlock
			var r wire.ColumnReader
			var v wire.BlockValue
			testenv.NoError(t, b.Decode(s.Body))
			testenv.NoError(t, r.Reset(&b))
			for r.Next(&v) {
				got[v.Position]++
			}
			rows = append(rows, b.Rows)
		}})
		go w.Run(t.Context())
		definition := &model.TemplateDefinition{Definition: model.Definition{ID: 5, Unit: 1000}}
		for range 250 {
			definition.Items = append(definition.Items, model.Item{Key: "agent.ping", Interval: "10s"})
		}
		w.Set([]*model.TemplateDefinition{definition}, noProperties)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if len(got) != 250 || !slices.Equal(rows, []uint32{100, 100, 50}) || got[0] != 1 || got[249] != 1 {
			t.Errorf("values of %d items in blocks of %d", len(got), rows)
		}
	})
}

// noProperties is a property look-up that finds nothing, for tests of items without macros.
func noProperties(string) ([]byte, string, bool) { return nil, "", false }

// TestIntervalsHaveMacrosAndTimes collects items whose intervals have macros and times of the clock, and expects each at its
// times. An item whose interval is no time sends the reason. A wall clock that is set back or ahead moves the times of the clock.
func TestIntervalsHaveMacrosAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var set atomic.Int64 // ns that the wall clock is ahead
		var mu sync.Mutex    // guards count
		count := map[string]int{}
		definition := &model.TemplateDefinition{Definition: model.Definition{ID: 5, Unit: 1000}, Macros: map[string]string{"{$BAD}": "soon"}, Items: []model.Item{
			{Key: "agent.hostname", Interval: "{$EVERY}"}, {Key: "agent.ping", Interval: "{$BAD}"}, {Key: "agent.version", Interval: "0;m/10"},
		}}
		w := New(Config{
			Boot: func() time.Duration { return time.Since(began) }, Wall: func() time.Time { return time.Now().Add(time.Duration(set.Load())).UTC() },
			Emit: func(s *wire.Signal, _ *Position) {
				var b wire.ValueBlock
				testenv.NoError(t, b.Decode(s.Body))
				var r wire.ColumnReader
				testenv.NoError(t, r.Reset(&b))
				for v := (wire.BlockValue{}); r.Next(&v); {
					mu.Lock()
					count[definition.Items[v.Position].Key]++
					mu.Unlock()
					if v.Unsupported != (v.Position == 1) || v.Unsupported && !strings.HasPrefix(v.Value.String(), `the interval {$BAD} is "soon"`) {
						t.Errorf("%s: %s", definition.Items[v.Position].Key, v.Value)
					}
				}
			},
		})
		go w.Run(t.Context())
		w.Set([]*model.TemplateDefinition{definition}, func(name string) ([]byte, string, bool) { return []byte(`"120"`), "", name == "{$EVERY}" })
		expect := func(what string, hostname, ping, version int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := [3]int{count["agent.hostname"], count["agent.ping"], count["agent.version"]}; got != [3]int{hostname, ping, version} {
				t.Errorf("%s: %v, expected %v", what, got, [3]int{hostname, ping, version})
			}
			clear(count)
		}
		time.Sleep(30*time.Minute + time.Second) // from midnight
		expect("half an hour", 15, 30, 3)
		set.Store(int64(-5 * time.Minute))
		time.Sleep(10 * time.Minute) // from 00:25 to 00:35
		expect("set back", 5, 10, 1)
		set.Store(int64(time.Hour - 5*time.Minute))
		time.Sleep(5 * time.Minute) // one missed time, then from 01:35 to 01:40
		expect("set ahead", 3, 5, 2)
	})
}

// tempFolder returns an empty folder for a test. The folder may stay on Windows, because Wine 8 removes no files.
func tempFolder(t *testing.T) string {
	if runtime.GOOS != "windows" {
		return t.TempDir()
	}
	folder := testenv.Value(os.MkdirTemp("", "collect"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}
