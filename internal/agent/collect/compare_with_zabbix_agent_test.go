package collect

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// zabbixValue is the answer of Zabbix's own agent for one item key
type zabbixValue struct {
	kind  byte // u, d, s, t; m: not supported
	value string
}

// askZabbix runs zabbix_agentd -t for an item key and returns its answer
func askZabbix(t *testing.T, program, key string) zabbixValue {
	out, _ := exec.Command(program, "-t", key).Output() // the exit status tells only whether the key is supported
	_, rest, ok := strings.Cut(strings.TrimPrefix(string(out), key), "[")
	kind, value, ok2 := strings.Cut(strings.TrimSuffix(strings.TrimSpace(rest), "]"), "|")
	if !ok || !ok2 {
		t.Fatalf("zabbix_agentd -t %s answers %q", key, out)
	}
	return zabbixValue{kind[0], value}
}

// measureKey returns the value that Muster's agent measures for an item key on the local machine.
func measureKey(t *testing.T, key string) (item.Value, error) {
	t.Helper()
	k, err := ParseKey(key)
	testenv.NoError(t, err)
	if err := Check(key); err != nil {
		return item.Value{}, err
	}
	host, err := os.Hostname()
	testenv.NoError(t, err)
	boot := time.Now()
	w := New(Config{Host: host, Boot: func() time.Duration { return time.Since(boot) }})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return collectors()[k.Name].measure(ctx, &w.machine, &k)
}

// TestCollectorsAgreeWithZabbix measures each item key with both agents, Muster's and Zabbix's, and compares the
// values. Type and support must also agree. A number may differ by a share where it changes between the two
// measurements; 1 compares types only.
func TestCollectorsAgreeWithZabbix(t *testing.T) {
	program, err := exec.LookPath("zabbix_agentd")
	if err != nil {
		t.Skip("zabbix_agentd is not installed: apt-get install zabbix-agent")
	}
	folder := t.TempDir()
	testenv.NoError(t, os.WriteFile(folder+"/lines", []byte("one 1\ntwo 2\nthree 3\n"), 0o640))
	testenv.NoError(t, os.WriteFile(folder+"/empty", nil, 0o600))
	testenv.NoError(t, os.MkdirAll(folder+"/sub/deep", 0o755))
	testenv.NoError(t, os.WriteFile(folder+"/sub/deep/big", make([]byte, 100<<10), 0o600))
	testenv.NoError(t, os.WriteFile(folder+"/sub/small", make([]byte, 10), 0o600))
	testenv.NoError(t, os.Symlink(folder+"/lines", folder+"/link"))
	testenv.NoError(t, os.Symlink(folder+"/nothing", folder+"/broken"))
	keys := zabbixKeys(t)
	for key, share := range keys {
		key = strings.ReplaceAll(key, "FOLDER", folder)
		theirs := askZabbix(t, program, key)
		ours, err := measureKey(t, key)
		switch theirs.kind {
		case 'm':
			if err == nil {
				t.Errorf("%s = %v; Zabbix does not support it: %s", key, ours, theirs.value)
			}
			continue
		case 'u':
			if ours.Kind() != item.UnsignedValue {
				t.Errorf("%s = %v (%v), error %v; Zabbix has the unsigned number %s", key, ours, ours.Kind(), err, theirs.value)
				continue
			}
		case 'd':
			if ours.Kind() != item.FloatValue {
				t.Errorf("%s = %v, error %v; Zabbix has the float %s", key, ours, err, theirs.value)
				continue
			}
		default:
			if ours.Kind() != item.TextValue || share < 1 && strings.TrimSpace(ours.String()) != strings.TrimSpace(theirs.value) {
				t.Errorf("%s = %q, error %v; Zabbix has the text %q", key, ours, err, theirs.value)
			}
			continue
		}
		want, err := strconv.ParseFloat(theirs.value, 64)
		testenv.NoError(t, err)
		if difference := math.Abs(ours.Float() - want); share < 1 && difference > share*max(math.Abs(want), math.Abs(ours.Float())) {
			t.Errorf("%s = %v; Zabbix has %s", key, ours, theirs.value)
		}
	}
}

// zabbixKeys returns the item keys to compare with Zabbix, each with the allowed relative difference of numbers.
func zabbixKeys(t *testing.T) map[string]float64 {
	listener := testenv.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	port := listener.Addr().(*net.TCPAddr).Port
	return map[string]float64{
		"agent.ping": 0, "agent.hostname": 1, "agent.variant": 0, "agent.version": 1, "agent.ping[x]": 0,
		"system.hostname": 0, "system.hostname[shorthost]": 0, "system.hostname[,lower]": 0, "system.hostname[x]": 0,
		"system.uptime": 0.01, "system.boottime": 0, "system.cpu.switches": 0.05, "system.cpu.intr": 0.05, "system.cpu.load": 1, "system.cpu.load[percpu,avg15]": 1,
		"system.cpu.num": 0, "system.cpu.num[max]": 0, "system.cpu.num[x]": 0, "system.localtime": 0.01, "system.localtime[local]": 1, "system.localtime[x]": 0,
		"system.uname": 0, "system.sw.arch": 0, "system.sw.os": 0, "system.sw.os[name]": 0, "system.sw.os[short]": 0, "system.users.num": 0,
		"system.swap.in": 0.05, "system.swap.out[all,pages]": 0.05, "system.swap.in[all,count]": 0.05, "system.swap.out[all,sectors]": 0.05, "system.swap.in[nosuch,count]": 0, "system.swap.in[all,x]": 0,
		"system.swap.size[,total]": 0, "system.swap.size[,pfree]": 0.1, "system.swap.size[,x]": 0,
		"kernel.maxfiles": 0, "kernel.maxproc": 0, "kernel.openfiles": 0.5, "kernel.maxproc[1]": 0,
		"net.if.in[lo]": 0.05, "net.if.out[lo,packets]": 0.05, "net.if.total[lo]": 0.05, "net.if.total[lo,errors]": 0, "net.if.in[lo,multicast]": 0, "net.if.in[lo,x]": 0,
		"net.if.total[lo,frame]": 0, "net.if.out[lo,carrier]": 0, "net.if.in": 0, "net.if.in[nosuch0]": 0, "net.if.collisions[lo]": 0, "net.if.collisions": 0, "net.if.discovery": 0,
		"vfs.dev.read[,operations]": 0.05, "vfs.dev.write[all,sectors]": 0.05, "vfs.dev.read[nosuch,operations]": 0, "vfs.dev.read[,x]": 0, "vfs.dev.discovery": 1,
		"vfs.fs.size[/]": 0, "vfs.fs.size[/,used]": 0.05, "vfs.fs.size[/,pfree]": 0.05, "vfs.fs.size[/,pused]": 0.05, "vfs.fs.size[/nosuch]": 0, "vfs.fs.size": 0, "vfs.fs.size[/,x]": 0,
		"vfs.fs.inode[/]": 0, "vfs.fs.inode[/,pfree]": 0.05, "vfs.fs.inode[/,used]": 0.05,
		"vfs.file.exists[FOLDER/lines]": 0, "vfs.file.exists[FOLDER]": 0, "vfs.file.exists[FOLDER,dir]": 0, "vfs.file.exists[FOLDER/link,sym]": 0, "vfs.file.exists[FOLDER/broken]": 0,
		"vfs.file.exists[FOLDER/broken,sym]": 0, "vfs.file.exists[FOLDER/lines,,file]": 0, "vfs.file.exists[FOLDER,,file]": 0, "vfs.file.exists[/dev/null,dev]": 0, "vfs.file.exists[/dev/null,any]": 0,
		"vfs.file.exists[FOLDER/link,all,sym]": 0, "vfs.file.exists[]": 0,
		"vfs.file.size[FOLDER/lines]": 0, "vfs.file.size[FOLDER/lines,lines]": 0, "vfs.file.size[FOLDER]": 0, "vfs.file.size[FOLDER/nothing]": 0, "vfs.file.size[FOLDER/empty,lines]": 0, "vfs.file.size[FOLDER/lines,x]": 0,
		"vfs.file.time[FOLDER/lines]": 0, "vfs.file.time[FOLDER/lines,access]": 0, "vfs.file.time[FOLDER/lines,change]": 0, "vfs.file.time[FOLDER/lines,x]": 0,
		"vfs.file.contents[FOLDER/lines]": 0, "vfs.file.contents[FOLDER/empty]": 0, "vfs.file.contents[FOLDER]": 0, "vfs.file.contents[FOLDER/sub/deep/big]": 0,
		"vfs.file.cksum[FOLDER/lines]": 0, "vfs.file.cksum[FOLDER/empty]": 0, "vfs.file.cksum[FOLDER/sub/deep/big]": 0, "vfs.file.cksum[FOLDER/lines,sha256]": 0, "vfs.file.cksum[FOLDER/lines,x]": 0,
		"vfs.file.md5sum[FOLDER/lines]": 0, "vfs.file.md5sum[FOLDER]": 0,
		"vfs.file.regexp[FOLDER/lines,two]": 0, `vfs.file.regexp[FOLDER/lines,"(t)w(.)",,,,\2\1<\0>\9]`: 0, "vfs.file.regexp[FOLDER/lines,nosuch]": 0, "vfs.file.regexp[FOLDER/lines,e,,2]": 0,
		"vfs.file.regexp[FOLDER/lines,]": 0, "vfs.file.regexp[FOLDER/lines,one,,2,1]": 0, "vfs.file.regmatch[FOLDER/lines,three,,1,2]": 0, "vfs.file.regmatch[FOLDER/lines,three,,3,3]": 0,
		"vfs.dir.size[FOLDER]": 0, "vfs.dir.size[FOLDER,,,disk]": 0, "vfs.dir.size[FOLDER,,,,0]": 0, "vfs.dir.size[FOLDER,,,,1]": 0, "vfs.dir.size[FOLDER,small]": 0, "vfs.dir.size[FOLDER,,small]": 0,
		"vfs.dir.size[FOLDER,,,,,deep]": 0, "vfs.dir.size[FOLDER/lines]": 0, "vfs.dir.size[FOLDER,,,x]": 0, "vfs.dir.size[FOLDER,,,,x]": 0,
		"vfs.dir.count[FOLDER]": 0, "vfs.dir.count[FOLDER,,,file]": 0, "vfs.dir.count[FOLDER,,,,dir]": 0, "vfs.dir.count[FOLDER,,,sym]": 0, "vfs.dir.count[FOLDER,,,,,0]": 0, "vfs.dir.count[FOLDER,,,,,1]": 0,
		"vfs.dir.count[FOLDER,e]": 0, "vfs.dir.count[FOLDER,,e]": 0, "vfs.dir.count[FOLDER,,,,,,1K]": 0, "vfs.dir.count[FOLDER,,,file,,,,1K]": 0, "vfs.dir.count[FOLDER,,,,,,,,1h]": 0,
		"vfs.dir.count[FOLDER,,,,,,,,,1d]": 0, "vfs.dir.count[FOLDER,,,,,,,,,,deep]": 0, "vfs.dir.count[FOLDER,,,x]": 0, "vfs.dir.count[FOLDER,,,,,,1y]": 0,
		"vfs.fs.discovery": 0, "vfs.fs.get": 1,
		"net.tcp.port[,1]": 0, "net.tcp.port[,x]": 0, "net.tcp.listen[1]": 0, "net.tcp.listen[x]": 0, "net.udp.listen[1]": 0, "net.tcp.service[tcp,,1]": 0, "net.tcp.service[ssh,,1]": 0,
		"net.tcp.service[nosuch]": 0, "net.tcp.service[tcp]": 0, "net.tcp.service.perf[tcp,,1]": 0,
		fmt.Sprintf("net.tcp.port[,%d]", port): 0, fmt.Sprintf("net.tcp.listen[%d]", port): 0, fmt.Sprintf("net.tcp.service[tcp,,%d]", port): 0,
		"vm.memory.size": 0, "vm.memory.size[free]": 0.5, "vm.memory.size[available]": 0.5, "vm.memory.size[pavailable]": 0.5, "vm.memory.size[used]": 0.5, "vm.memory.size[pused]": 0.5,
		"vm.memory.size[cached]": 0.2, "vm.memory.size[buffers]": 0.2, "vm.memory.size[shared]": 0.2, "vm.memory.size[slab]": 0.2, "vm.memory.size[active]": 0.3, "vm.memory.size[inactive]": 0.3,
		"vm.memory.size[anon]": 0.5, "vm.memory.size[x]": 0,
		"proc.num[collect.test]": 0, "proc.num[,root]": 0.2, "proc.num[,nosuchuser]": 0, "proc.num[,,zomb]": 1, "proc.num[,,x]": 0, "proc.num[,,,,]": 0,
		"proc.mem[collect.test]": 0.2, "proc.mem[collect.test,root,max]": 0.2, "proc.mem[collect.test,,avg,,rss]": 0.2, "proc.mem[collect.test,,sum,,pmem]": 0.2, "proc.mem[collect.test,,,,size]": 0.2,
		"proc.mem[nosuch,,min]": 0, "proc.mem[nosuch,,x]": 0, "proc.mem[nosuch,,,,x]": 0, "proc.mem[,,max,,vsize]": 1,
	}
}
