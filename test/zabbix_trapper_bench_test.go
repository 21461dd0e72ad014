//go:build linux

package test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/muster/internal/store/pgtest"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/test/harness"
)

// Sizes of BenchmarkTrapperComparison.
const (
	trapperHosts   = 100 // with a multiplier on each item, and as many with a trigger on each, too
	trapperItems   = 100 // of a host
	trapperRounds  = 30  // values of each item
	trapperSenders = 50  // at once, each of two hosts
	senderValues   = 250 // of a request, as zabbix_sender sends
)

// trapperKinds are the kinds of hosts: names begin so.
var trapperKinds = [...]string{"multiplier", "trigger"}

// trapperFrames returns the requests of all simulated zabbix_senders, for a range of benchmark rounds. The
// requests have the form of zabbix_sender.
func trapperFrames(kind string, from, to int) (senders [trapperSenders][][]byte) {
	first, rows := time.Now().Unix()-trapperRounds-1, []string{}
	for sender := range senders {
		send := func() {
			senders[sender] = append(senders[sender], zabbixFrame(`{"request":"sender data","data":[`+strings.Join(rows, ",")+`]}`))
			rows = rows[:0]
		}
		for round := from; round < to; round++ {
			for host := sender; host < trapperHosts; host += trapperSenders {
				for item := range trapperItems {
					rows = append(rows, fmt.Sprintf(`{"host":"%s-%03d","key":"app.requests[%d]","value":"%d.%d","clock":%d,"ns":%d}`,
						kind, host, item, item*round, host%10, first+int64(round), 1_000*(host*trapperItems+item)+1))
					if len(rows) == senderValues {
						send()
					}
				}
			}
		}
		if len(rows) > 0 {
			send()
		}
	}
	return senders
}

// zabbixFrame returns a JSON request with the header of the Zabbix protocol. It has a header and the JSON text.
func zabbixFrame(payload string) []byte {
	return append(binary.LittleEndian.AppendUint64([]byte("ZBXD\x01"), uint64(len(payload))), payload...)
}

// sendZabbixRequest sends a request of Zabbix' protocol over a new connection, and returns the answer.
func sendZabbixRequest(address string, frame []byte) (string, error) {
	c, err := net.DialTimeout("tcp", address, time.Minute)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err = c.Write(frame); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err == nil && len(answer) < 13 {
		err = fmt.Errorf("the answer has %d bytes", len(answer))
	}
	if err != nil {
		return "", err
	}
	return string(answer[13:]), nil
}

// sendTrapperValues sends the prepared requests of all simulated zabbix_senders at the same time. The requests of one
// sender stay in order.
func sendTrapperValues(b *testing.B, address string, senders [trapperSenders][][]byte) {
	var group errgroup.Group
	for _, frames := range senders {
		group.Go(func() error {
			for _, frame := range frames {
				answer, err := sendZabbixRequest(address, frame)
				if err == nil && !strings.Contains(answer, "failed: 0;") {
					err = fmt.Errorf("%s", answer)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	testenv.NoError(b, group.Wait())
}

// awaitSlowCondition waits for a condition that is expensive to evaluate. It evaluates the condition five times a
// second.
func awaitSlowCondition(b *testing.B, what string, ok func() (saw string, done bool)) {
	b.Helper()
	saw, done := ok()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for began := time.Now(); !done; saw, done = ok() {
		if <-look.C; time.Since(began) > 10*time.Minute {
			b.Fatalf("not within 10 minutes: %s; last seen: %s", what, saw)
		}
	}
}

// trapperServer is one of the servers in the comparison BenchmarkTrapperComparison.
type trapperServer struct {
	address   string
	used      func() time.Duration     // processor time of all its processes
	awaitSent func(kind string, n int) // waits until it stores n values more of a kind of hosts
}

// BenchmarkTrapperComparison compares what storing values of zabbix_sender costs in Muster and in Zabbix. Zabbix has a
// PostgreSQL that does not sync. The values go to items with a multiplier, then to items with a multiplier and a
// trigger each. It reports the processor time of all processes of the server per value, and the values per second
// until all are stored, without the first value of each item. Run it with -benchtime 1x.
func BenchmarkTrapperComparison(b *testing.B) {
	for _, x := range []struct {
		name  string
		start func(b *testing.B) trapperServer
	}{{"muster", startTrapperMuster}, {"zabbix", startTrapperZabbix}} {
		b.Run(x.name, func(b *testing.B) {
			s := x.start(b)
			for b.Loop() {
				for _, kind := range trapperKinds {
					sendTrapperValues(b, s.address, trapperFrames(kind, 0, 1)) // makes series
					s.awaitSent(kind, trapperHosts*trapperItems)
					senders := trapperFrames(kind, 1, 1+trapperRounds)
					began, before := time.Now(), s.used()
					sendTrapperValues(b, s.address, senders)
					const values = trapperHosts * trapperItems * trapperRounds
					s.awaitSent(kind, values)
					took, used := time.Since(began), s.used()-before
					b.ReportMetric(float64(used.Nanoseconds())/values, kind+"-cpu-ns/value")
					b.ReportMetric(values/took.Seconds(), kind+"-values/s")
				}
			}
		})
	}
}

// startTrapperMuster starts a Muster server with the benchmark's hosts and items.
func startTrapperMuster(b *testing.B) trapperServer {
	address := harness.ReservePort(b)
	s := harness.StartServer(b, "--zabbix-listen", address)
	s.Login()
	var text strings.Builder
	text.WriteString("{kind: Namespace, metadata: {name: default}, spec: {zabbixFrom: [127.0.0.1], limits: {nodeResultsPerSec: 100000}}}\n")
	for _, kind := range trapperKinds {
		var nodes, items, triggers []string
		for host := range trapperHosts {
			nodes = append(nodes, fmt.Sprintf("%s-%03d", kind, host))
			fmt.Fprintf(&text, "---\n{kind: Node, metadata: {name: %s}}\n", nodes[host])
		}
		for item := range trapperItems {
			items = append(items, fmt.Sprintf(`{key: "app.requests[%d]", trapper: true, steps: [{multiplier: "2"}]}`, item))
			if kind == "trigger" {
				triggers = append(triggers, fmt.Sprintf(`{name: high-%d, expression: "last(//app.requests[%d])>1000000"}`, item, item))
			}
		}
		fmt.Fprintf(&text, "---\nkind: Template\nmetadata: {name: %s}\nspec: {targets: {nodes: [%s]}, items: [%s], triggers: [%s]}\n",
			kind, strings.Join(nodes, ", "), strings.Join(items, ", "), strings.Join(triggers, ", "))
	}
	s.Apply(text.String())
	stored := 0.0
	return trapperServer{address: address, used: func() time.Duration { return processorTime(b, s.PID()) }, awaitSent: func(kind string, n int) {
		awaitSlowCondition(b, "the series store has all values", func() (string, bool) {
			all := s.Metric("muster_series_values_total") - stored
			if all >= float64(n) {
				stored += all
			}
			return fmt.Sprint(all), all >= float64(n)
		})
	}}
}

// trapperSchema adds the hosts and items to Zabbix' database.
const trapperSchema = `
update hosts set status = 1;
insert into hosts (hostid, host, name, status) select 1000000 * kind + host, name || '-' || lpad(host::text, 3, '0'), name || '-' || lpad(host::text, 3, '0'), 0
  from (values (1, 'multiplier'), (2, 'trigger')) k(kind, name), generate_series(0, %[1]d) host;
insert into hosts_groups (hostgroupid, hostid, groupid) select hostid, hostid, (select min(groupid) from hstgrp) from hosts where hostid >= 1000000;
insert into items (itemid, hostid, type, name, key_, value_type, delay, params, description, posts, headers)
  select hostid * 1000 + item, hostid, 2, 'requests ' || item, 'app.requests[' || item || ']', 0, '0', '', '', '', '' from hosts, generate_series(0, %[2]d) item where hostid >= 1000000;
insert into item_rtdata (itemid) select itemid from items where hostid >= 1000000;
insert into item_preproc (item_preprocid, itemid, step, type, params, error_handler, error_handler_params) select itemid, itemid, 1, 1, '2', 0, '' from items where hostid >= 1000000;
insert into triggers (triggerid, expression, description, comments, status, priority) select itemid, '{' || itemid || '}>1000000', 'high', '', 0, 4 from items where hostid >= 2000000;
insert into functions (functionid, itemid, triggerid, name, parameter) select itemid, itemid, itemid, 'last', '$' from items where hostid >= 2000000;
`

// readGzip returns the uncompressed content of a gzip file.
func readGzip(b *testing.B, path string) string {
	f := testenv.Value(os.Open(path))(b)
	defer f.Close()
	z := testenv.Value(gzip.NewReader(f))(b)
	return string(testenv.Value(io.ReadAll(z))(b))
}

// processTreeTime returns the CPU time of a process together with its child processes. Ended child processes count, too.
func processTreeTime(pid string) (total time.Duration) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0 // it has ended, and its time is its parent's
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:15] {
		ticks, _ := strconv.Atoi(field)
		total += time.Duration(ticks) * time.Second / 100
	}
	children, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	for _, child := range strings.Fields(string(children)) {
		total += processTreeTime(child)
	}
	return total
}

// startTrapperZabbix starts a Zabbix server with the benchmark's hosts and items. It also starts the PostgreSQL of the
// server.
func startTrapperZabbix(b *testing.B) trapperServer {
	program := testenv.Program(b, "zabbix_server", "zabbix-server-pgsql", "/usr/sbin")
	postgres := pgtest.Start(b)
	dsn := postgres.Database(b)
	for _, file := range []string{"schema", "images", "data"} {
		postgres.Exec(b, dsn, readGzip(b, filepath.Join("/usr/share/zabbix-server-pgsql", file+".sql.gz")))
	}
	postgres.Exec(b, dsn, fmt.Sprintf(trapperSchema, trapperHosts-1, trapperItems-1))
	at := testenv.Value(url.Parse(dsn))(b)
	socket := at.Query().Get("host")
	address, dir := harness.ReservePort(b), b.TempDir()
	_, port, err := net.SplitHostPort(address)
	testenv.NoError(b, err)
	config := writeFileInFolder(b, dir, "zabbix_server.conf", fmt.Sprintf(`ListenIP=127.0.0.1
ListenPort=%[1]s
LogFile=%[2]s/log
PidFile=%[2]s/pid
SocketDir=%[2]s
DBHost=%[3]s
DBName=%[4]s
DBUser=muster
AllowRoot=1
StatsAllowedIP=127.0.0.1
StartTrappers=5
StartPreprocessors=3
StartDBSyncers=4
StartPollers=1
StartDiscoverers=0
StartHTTPPollers=0
CacheSize=128M
HistoryCacheSize=256M
HistoryIndexCacheSize=64M
TrendCacheSize=64M
ValueCacheSize=128M
`, port, dir, socket, strings.TrimPrefix(at.Path, "/")))
	c := exec.Command(program, "-f", "-c", config)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	testenv.NoError(b, c.Start())
	b.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		if log, err := os.ReadFile(filepath.Join(dir, "log")); err == nil && b.Failed() {
			b.Logf("Zabbix: %s", log)
		}
	})
	harness.Until(b, time.Minute, "Zabbix knows the last item", func() (string, bool) {
		answer, err := sendZabbixRequest(address, zabbixFrame(fmt.Sprintf(`{"request":"sender data","data":[{"host":"trigger-%03d","key":"app.requests[%d]","value":"0"}]}`, trapperHosts-1, trapperItems-1)))
		return fmt.Sprint(answer, err), strings.Contains(answer, "processed: 1;")
	})
	db, err := sql.Open("pgx", dsn)
	testenv.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	before := map[string]int{}
	return trapperServer{
		address: address,
		used: func() time.Duration {
			first, _, _ := strings.Cut(string(readFile(b, filepath.Join(socket, "data/postmaster.pid"))), "\n")
			return processTreeTime(strconv.Itoa(c.Process.Pid)) + processTreeTime(first)
		},
		awaitSent: func(kind string, n int) {
			awaitSlowCondition(b, "the caches are empty", func() (string, bool) {
				answer, err := sendZabbixRequest(address, zabbixFrame(`{"request":"zabbix.stats"}`))
				var stats struct {
					Data struct {
						Queue int `json:"preprocessing_queue"`
						Write struct {
							History struct{ PFree float64 }
						} `json:"wcache"`
					}
				}
				if err == nil {
					err = json.Unmarshal([]byte(answer), &stats)
				}
				return fmt.Sprint(answer, err), err == nil && stats.Data.Queue == 0 && stats.Data.Write.History.PFree > 99.9
			})
			awaitSlowCondition(b, "PostgreSQL has all values", func() (string, bool) {
				var stored int
				err := db.QueryRowContext(b.Context(), "select count(*) from history where itemid / 1000000000 = $1", 1+slices.Index(trapperKinds[:], kind)).Scan(&stored)
				return fmt.Sprint(stored, err), stored >= before[kind]+n
			})
			before[kind] += n
		},
	}
}
