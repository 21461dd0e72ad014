package collect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/muster-fleet/muster/internal/item"
)

// measuresOfSystem returns the functions that measure the keys of FreeBSD, by the names of the keys.
func measuresOfSystem() map[string]measureFunc {
	table := bsdMeasures()
	table["kernel.openfiles"] = sysctlNumber("kern.openfiles")
	table["proc.num"] = processNumber
	table["system.cpu.intr"] = sysctlNumber("vm.stats.sys.v_intr")
	table["system.cpu.switches"] = sysctlNumber("vm.stats.sys.v_swtch")
	table["system.cpu.util"] = cpuUtil
	table["system.swap.size"] = swapSize
	table["vm.memory.size"] = memorySize
	return table
}

// cpuStates are the counters of kern.cp_time, in their order.
var cpuStates = []string{"user", "nice", "system", "interrupt", "idle"}

// cpuUtil collects the item system.cpu.util[all|N,STATE], the CPU's percentage of time in a state. The percentage
// counts the time since the last collection.
func cpuUtil(_ context.Context, m *machine, k *Key) (item.Value, error) {
	name, skip := "kern.cp_time", 0
	if cpu := k.Parameter(0, "all"); cpu != "all" {
		n, err := strconv.Atoi(cpu)
		if err != nil || n < 0 || n >= 1<<16 {
			return item.Value{}, fmt.Errorf("this machine has no CPU %s", cpu)
		}
		name, skip = "kern.cp_times", n*len(cpuStates)
	}
	data, err := unix.SysctlRaw(name)
	if err != nil {
		return item.Value{}, err
	}
	const long = int(unsafe.Sizeof(uintptr(0)))
	if len(data) < (skip+len(cpuStates))*long {
		return item.Value{}, fmt.Errorf("this machine has no CPU %s", k.Parameter(0, "all"))
	}
	counters := make([]float64, len(cpuStates))
	for i := range counters {
		if at := data[(skip+i)*long:]; long == 8 {
			counters[i] = float64(binary.NativeEndian.Uint64(at))
		} else {
			counters[i] = float64(binary.NativeEndian.Uint32(at))
		}
	}
	return m.shareOfTime(k, cpuStates, counters)
}

// memorySize collects the item vm.memory.size[MODE], an amount of memory in bytes. The mode is total, available and so
// on.
func memorySize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	total, err := unix.SysctlUint64("hw.physmem")
	if err != nil {
		return item.Value{}, err
	}
	size := float64(unix.Getpagesize())
	pages := map[string]float64{}
	for _, name := range []string{"active", "inactive", "wire", "cache", "free"} {
		n, err := unix.SysctlUint32("vm.stats.vm.v_" + name + "_count")
		if err != nil && name != "cache" { // newer kernels have none
			return item.Value{}, err
		}
		pages[name] = float64(n) * size
	}
	buffers, _ := unix.SysctlUint64("vfs.bufspace") // part of the wired memory
	return selectMemory(k, float64(total), []memoryAmount{
		{"total", float64(total)}, {"free", pages["free"]}, {"available", pages["inactive"] + pages["cache"] + pages["free"]},
		{"used", pages["active"] + pages["wire"] + pages["cache"]}, {"buffers", float64(buffers)}, {"cached", pages["cache"]},
		{"active", pages["active"]}, {"inactive", pages["inactive"]}, {"wired", pages["wire"]},
	}, "available", "used")
}

// swapSize collects the item system.swap.size[,MODE], an amount of swap space such as free or used.
func swapSize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	type device struct { // struct xswdev
		version           uint32
		device            uint64
		flags, size, used int32 // in pages
	}
	total, used := 0.0, 0.0
	for i := 0; ; i++ {
		data, err := unix.SysctlRaw("vm.swap_info", i)
		if errors.Is(err, unix.ENOENT) {
			break // no more devices
		}
		if err != nil {
			return item.Value{}, err
		}
		if len(data) < int(unsafe.Sizeof(device{})) {
			return item.Value{}, fmt.Errorf("vm.swap_info has %d bytes", len(data))
		}
		d := (*device)(unsafe.Pointer(&data[0]))
		total, used = total+float64(d.size), used+float64(d.used)
	}
	size := float64(unix.Getpagesize())
	return selectSwap(k, total*size, (total-used)*size)
}

// processNumber collects the item proc.num, the number of all processes.
func processNumber(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	if len(k.Parameters) > 0 && (k.Parameter(0, "") != "" || k.Parameter(1, "") != "" || k.Parameter(2, "all") != "all" || k.Parameter(3, "") != "") {
		return item.Value{}, fmt.Errorf("%s: on FreeBSD the key counts all processes and has no parameters", k.Name)
	}
	data, err := unix.SysctlRaw("kern.proc.proc")
	if err != nil {
		return item.Value{}, err
	}
	if len(data) < 4 {
		return item.Value{}, fmt.Errorf("kern.proc.proc has %d bytes", len(data))
	}
	size := binary.NativeEndian.Uint32(data) // ki_structsize, the first field of each process
	if size == 0 {
		return item.Value{}, errors.New("kern.proc.proc has processes without a size")
	}
	return item.FromUnsigned(uint64(len(data)) / uint64(size)), nil
}

// interfaceMessage is the begin of struct if_msghdr, with the counters of struct if_data.
type interfaceMessage struct {
	_                [12]byte
	index            uint16
	_                [26]byte // up to ifi_baudrate
	packetsIn        uint64
	errorsIn         uint64
	packetsOut       uint64
	errorsOut        uint64
	collisions       uint64
	bytesIn          uint64
	bytesOut         uint64
	multicastIn      uint64
	multicastOut     uint64
	droppedIn        uint64
	droppedOut       uint64
	unknownProtocols uint64
}

// interfaceCounters returns the counters of the network interfaces by their names.
func interfaceCounters() (map[string]interfaceTraffic, error) {
	counters := map[string]interfaceTraffic{}
	err := interfaceMessages(unix.NET_RT_IFLIST, unix.RTM_IFINFO, int(unsafe.Sizeof(interfaceMessage{})), func(message []byte) {
		h := (*interfaceMessage)(unsafe.Pointer(&message[0]))
		one, err := net.InterfaceByIndex(int(h.index))
		if err != nil {
			return // it has gone meanwhile
		}
		counters[one.Name] = interfaceTraffic{h.bytesIn, h.packetsIn, h.errorsIn, h.droppedIn, h.bytesOut, h.packetsOut, h.errorsOut, h.droppedOut, h.collisions}
	})
	return counters, err
}
