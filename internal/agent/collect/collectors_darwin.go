package collect

import (
	"context"
	"fmt"
	"net"
	"os/user"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/item"
)

// measuresOfSystem returns the functions that measure the keys of macOS, by the names of the keys.
func measuresOfSystem() map[string]measureFunc {
	table := bsdMeasures()
	table["kernel.openfiles"] = sysctlNumber("kern.num_files")
	table["proc.num"] = processNumber
	table["system.swap.size"] = swapSize
	table["vm.memory.size"] = memorySize
	return table
}

// memorySize collects the item vm.memory.size[total|free]. The kernel tells other amounts only by calls that a program
// without C cannot make.
func memorySize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return item.Value{}, err
	}
	pages, err := unix.SysctlUint32("vm.page_free_count")
	if err != nil {
		return item.Value{}, err
	}
	return selectMemory(k, float64(total), []memoryAmount{{"total", float64(total)}, {"free", float64(pages) * float64(unix.Getpagesize())}})
}

// swapSize collects the item system.swap.size[,MODE], an amount of swap space such as free or used.
func swapSize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	data, err := unix.SysctlRaw("vm.swapusage")
	if err != nil {
		return item.Value{}, err
	}
	type usage struct{ total, free, used uint64 } // the begin of struct xsw_usage
	if len(data) < int(unsafe.Sizeof(usage{})) {
		return item.Value{}, fmt.Errorf("vm.swapusage has %d bytes", len(data))
	}
	u := (*usage)(unsafe.Pointer(&data[0]))
	return selectSwap(k, float64(u.total), float64(u.free))
}

// processNumber collects the item proc.num[NAME,USER], the number of matching processes.
func processNumber(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	if k.Parameter(2, "all") != "all" || k.Parameter(3, "") != "" {
		return item.Value{}, fmt.Errorf("%s: on macOS the key has only the parameters name and user", k.Name)
	}
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return item.Value{}, err
	}
	uid := ""
	if name := k.Parameter(1, ""); name != "" {
		u, err := user.Lookup(name)
		if err != nil {
			return item.FromUnsigned(0), nil
		}
		uid = u.Uid
	}
	name, count := k.Parameter(0, ""), uint64(0)
	for i := range list {
		command := textUntilZero(list[i].Proc.P_comm[:]) // at most 16 bytes of the name
		if (name == "" || name == command || len(command) == 16 && strings.HasPrefix(name, command)) && (uid == "" || uid == strconv.FormatUint(uint64(list[i].Eproc.Ucred.Uid), 10)) {
			count++
		}
	}
	return item.FromUnsigned(count), nil
}

// interfaceCounters returns the counters of the network interfaces by their names.
func interfaceCounters() (map[string]interfaceTraffic, error) {
	counters := map[string]interfaceTraffic{}
	err := interfaceMessages(unix.NET_RT_IFLIST2, unix.RTM_IFINFO2, unix.SizeofIfMsghdr2, func(message []byte) {
		h := (*unix.IfMsghdr2)(unsafe.Pointer(&message[0]))
		one, err := net.InterfaceByIndex(int(h.Index))
		if err != nil {
			return // it has gone meanwhile
		}
		d := &h.Data
		counters[one.Name] = interfaceTraffic{d.Ibytes, d.Ipackets, d.Ierrors, d.Iqdrops, d.Obytes, d.Opackets, d.Oerrors, uint64(h.Snd_drops), d.Collisions}
	})
	return counters, err
}
