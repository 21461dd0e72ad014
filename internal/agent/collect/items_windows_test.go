package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// windowsKeys returns keys for each collector that runs under Wine, with a test of the value. LISTEN is a port that a
// program listens on, FILE a file with three lines.
func windowsKeys() map[string]func(v item.Value) bool {
	present := func(v item.Value) bool { return v.Kind() != item.None && v.String() != "" }
	positive := func(v item.Value) bool { return v.Float() > 0 }
	percent := func(v item.Value) bool { return v.Kind() == item.FloatValue && v.Float() >= 0 && v.Float() <= 100 }
	is := func(text string) func(v item.Value) bool {
		return func(v item.Value) bool { return v.String() == text }
	}
	number := func(v item.Value) bool { return v.Kind() == item.UnsignedValue || v.Kind() == item.FloatValue }
	rows := func(macros ...string) func(v item.Value) bool {
		return func(v item.Value) bool {
			var list []map[string]any
			if json.Unmarshal([]byte(v.String()), &list) != nil || len(list) == 0 {
				return false
			}
			for _, name := range macros {
				if _, ok := list[0][name]; !ok {
					return false
				}
			}
			return true
		}
	}
	return map[string]func(v item.Value) bool{
		"agent.hostname": present, "agent.ping": is("1"), "agent.variant": is("1"), "agent.version": present,
		"net.if.discovery": rows("{#IFNAME}", "{#IFALIAS}", "{#IFGUID}"), "net.if.list": present,
		"net.if.in[IF]": number, "net.if.out[IF,packets]": number, "net.if.total[IF,errors]": number,
		"net.tcp.listen[LISTEN]": is("1"), "net.tcp.listen[1]": is("0"), "net.udp.listen[1]": is("0"), "net.tcp.port[,LISTEN]": is("1"),
		"net.tcp.service[tcp,,LISTEN]": is("1"), "net.tcp.service.perf[tcp,,LISTEN]": number,
		// Wine 8 writes whole numbers where floats belong, so that only the calls are tested.
		`perf_counter["\Processor(_Total)\% Processor Time"]`: number, `perf_counter_en["\System\System Up Time",5]`: number,
		"proc.num": positive, "proc.num[PROGRAM]": is("1"), "proc.num[PROGRAM,nobody]": is("0"), "proc_info[PROGRAM,wkset]": positive, "proc_info[PROGRAM,vmsize,sum]": positive,
		"proc_info[PROGRAM,utime]": number, "proc_info[PROGRAM,io_read_b]": number, "proc_info[PROGRAM,userobj,max]": number, "proc_info[nosuch.exe]": is("0"),
		`registry.data["HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion",CurrentVersion]`: present,
		`registry.get["HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion",values,^Product]`: rows("fullkey", "lastsubkey", "name", "data", "type"),
		`registry.get["HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion",keys]`:            rows("fullkey", "lastsubkey"),
		"service.discovery":     rows("{#SERVICE.NAME}", "{#SERVICE.DISPLAYNAME}", "{#SERVICE.STATE}", "{#SERVICE.STARTUPNAME}", "{#SERVICE.STARTUPTRIGGER}"),
		"service.info[nosuch1]": is("255"), "service.info[RpcSs]": number, "service_state[RpcSs]": number, "service.info[RpcSs,startup]": number, "service.info[RpcSs,path]": present, "services": present,
		"services[disabled,paused]": is("0"), "services[all,all,RpcSs]": present,
		"system.cpu.discovery": rows("{#CPU.NUMBER}", "{#CPU.STATUS}"), "system.cpu.num": positive, "system.cpu.util": percent, "system.cpu.util[0,system,avg1]": percent,
		"system.hostname": present, "system.hostname[host]": present, "system.localtime": positive, "system.localtime[local]": present,
		"system.sw.arch": is("x64"), "system.sw.os": present, "system.sw.os[name]": present, "system.uname": present, "system.uptime": positive,
		"system.swap.size[,total]": number, "system.swap.size[,pfree]": percent,
		"vfs.dir.count[FOLDER]": is("1"), "vfs.dir.size[FOLDER]": number, "vfs.file.exists[FILE]": is("1"), "vfs.file.size[FILE]": is("18"), "vfs.file.size[FILE,lines]": is("3"),
		"vfs.file.contents[FILE]": present, "vfs.file.regexp[FILE,two]": present, "vfs.file.regmatch[FILE,three]": is("1"), "vfs.file.time[FILE,access]": positive,
		"vfs.file.cksum[FILE]": positive, "vfs.file.md5sum[FILE]": present,
		"vfs.fs.discovery": rows("{#FSNAME}", "{#FSTYPE}", "{#FSLABEL}", "{#FSDRIVETYPE}"), "vfs.fs.get": rows("fsname", "fstype", "bytes"),
		"vfs.fs.size[C:]": positive, "vfs.fs.size[C:,pused]": percent, "vfs.fs.size[C:,free]": positive,
		"vm.memory.size": positive, "vm.memory.size[pavailable]": percent, "vm.memory.size[cached]": number, "vm.vmemory.size[total]": positive, "vm.vmemory.size[pused]": percent,
		`wmi.get[root\cimv2,select NumberOfLogicalProcessors from Win32_ComputerSystem]`: positive, `wmi.get[root\cimv2,select Caption from Win32_OperatingSystem]`: present,
		`wmi.getall[root\cimv2,"select Name, DriveType from Win32_LogicalDisk"]`: rows("DriveType"),
	}
}

// otherwiseTested are keys that other tests of this package measure, with servers of their own. TestKeysUnderWine runs
// these tests, too.
var otherwiseTested = []string{
	"icmpping", "icmppingloss", "icmppingsec", "log", "log.count", "logrt", "logrt.count", "system.run",
	"web.certificate.get", "web.page.get", "web.page.perf", "web.page.regexp",
}

// TestWindowsItems measures each key on Windows, or under Wine. It expects a value of the right form for each.
func TestWindowsItems(t *testing.T) {
	folder := tempFolder(t)
	file := filepath.Join(folder, "lines")
	testenv.NoError(t, os.WriteFile(file, []byte("one 1\ntwo 2\nthree\n"), 0o640))
	listener := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	host := testenv.Value(os.Hostname())(t)
	began := time.Now()
	w := New(Config{Host: host, Boot: func() time.Duration { return time.Since(began) }})
	measure := func(key string) (item.Value, error) {
		if err := Check(key); err != nil {
			return item.Value{}, err
		}
		k, err := ParseKey(key)
		if err != nil {
			return item.Value{}, err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return w.collectors[k.Name].measure(ctx, &w.machine, &k)
	}
	var interfaces []map[string]string
	list, err := measure("net.if.discovery")
	testenv.NoError(t, err)
	testenv.NoError(t, json.Unmarshal([]byte(list.String()), &interfaces))
	replace := strings.NewReplacer("FILE", `"`+strings.ReplaceAll(file, `"`, ``)+`"`, "FOLDER", `"`+folder+`"`, "PROGRAM", filepath.Base(os.Args[0]),
		"LISTEN", fmt.Sprint(listener.Addr().(*net.TCPAddr).Port), "IF]", `"`+interfaces[0]["{#IFNAME}"]+`"]`, "IF,", `"`+interfaces[0]["{#IFNAME}"]+`",`)
	measured := map[string]bool{}
	keys := windowsKeys()
	for _, template := range slices.Sorted(maps.Keys(keys)) {
		key := replace.Replace(template)
		v, err := measure(key)
		for started := time.Now(); err == nil && v.Kind() == item.None && time.Since(started) < 20*time.Second; { // it compares two collections
			v, err = measure(key)
		}
		name, _, _ := strings.Cut(key, "[")
		measured[name] = true
		if err != nil || !keys[template](v) {
			t.Errorf("%s = %v (%v), error %v", key, v, v.Kind(), err)
		}
		text := []rune(v.String())
		t.Logf("%-60s %s", key, string(text[:min(len(text), 100)]))
	}
	for name, c := range collectorTable() {
		if c.systems&underWine != 0 && !measured[name] && !slices.Contains(otherwiseTested, name) {
			t.Errorf("no key of %s is measured", name)
		}
	}
}

// TestWindowsLists splits lists of texts, and expects all texts of a list that lacks its last zeros.
func TestWindowsLists(t *testing.T) {
	for list, want := range map[string][]string{"": nil, "\x00": nil, "abc": {"abc"}, "abc\x00d": {"abc", "d"}, "a\x00bc\x00\x00rest": {"a", "bc"}} {
		if got := splitList(utf16.Encode([]rune(list))); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}
