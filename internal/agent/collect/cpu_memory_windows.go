package collect

import (
	"context"
	"fmt"
	"strconv"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/muster-fleet/muster/internal/item"
)

// Calls of Windows without a function in x/sys.
var (
	kernel32               = windows.NewLazySystemDLL("kernel32.dll")
	globalMemoryStatusEx   = kernel32.NewProc("GlobalMemoryStatusEx")
	getPerformanceInfo     = kernel32.NewProc("K32GetPerformanceInfo")
	guiResourcesOfProcess  = windows.NewLazySystemDLL("user32.dll").NewProc("GetGuiResources")
	iphlpapi               = windows.NewLazySystemDLL("iphlpapi.dll")
	getExtendedTCPTable    = iphlpapi.NewProc("GetExtendedTcpTable")
	getExtendedUDPTable    = iphlpapi.NewProc("GetExtendedUdpTable")
	serviceNameOfDisplayed = windows.NewLazySystemDLL("advapi32.dll").NewProc("GetServiceKeyNameW")
)

// cpuTime is SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION, the time of a CPU in units of 100 ns. The kernel's time has the
// idle time, too.
type cpuTime struct {
	idle, kernel, user, _, _ int64
	_                        uint32
	_                        uint32
}

// cpuTimes returns the times of each CPU of the agent's processor group, of at most 64 CPUs.
func cpuTimes() ([]cpuTime, error) {
	times := make([]cpuTime, 64)
	var size uint32
	err := windows.NtQuerySystemInformation(windows.SystemProcessorPerformanceInformation, unsafe.Pointer(&times[0]), uint32(unsafe.Sizeof(cpuTime{}))*64, &size)
	return times[:min(int(size/uint32(unsafe.Sizeof(cpuTime{}))), len(times))], err
}

// cpuUtil collects the item system.cpu.util[all|N,system], the CPU's percentage of time that is not idle. The percentage
// counts the time since the last collection.
func cpuUtil(_ context.Context, m *machine, k *Key) (item.Value, error) {
	times, err := cpuTimes()
	if err != nil {
		return item.Value{}, err
	}
	if cpu := k.Parameter(0, "all"); cpu != "all" {
		n, err := strconv.Atoi(cpu)
		if err != nil || n < 0 || n >= len(times) {
			return item.Value{}, fmt.Errorf("this machine has no CPU %s", cpu)
		}
		times = times[n : n+1]
	}
	busy, idle := int64(0), int64(0)
	for _, t := range times {
		busy, idle = busy+t.kernel+t.user-t.idle, idle+t.idle
	}
	return m.shareOfTime(k, []string{"system"}, []float64{float64(busy), float64(idle)})
}

// cpuCount returns the number of CPUs of all processor groups.
func cpuCount() (uint32, error) {
	const allGroups = 0xffff
	return windows.GetActiveProcessorCount(allGroups), nil
}

// cpuNumber collects the item system.cpu.num[online], the number of CPUs.
func cpuNumber(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	if k.Parameter(0, "online") != "online" {
		return item.Value{}, errUnknownMode(k, 0, "online")
	}
	n, err := cpuCount()
	return item.FromUnsigned(uint64(n)), err
}

// discoverCPUs collects the item system.cpu.discovery, the list of CPUs for Zabbix's low-level discovery.
func discoverCPUs(context.Context, *machine, *Key) (item.Value, error) {
	type cpu struct {
		Number uint32 `json:"{#CPU.NUMBER}"`
		Status string `json:"{#CPU.STATUS}"`
	}
	n, err := cpuCount()
	if err != nil {
		return item.Value{}, err
	}
	var list []cpu
	for i := range n {
		list = append(list, cpu{i, "online"})
	}
	return jsonValue(list)
}

// cpuLoad collects the item system.cpu.load[all|percpu,avg1|avg5|avg15], the mean length of the queue for the CPUs.
func cpuLoad(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	seconds, ok := map[string]int{"avg1": 60, "avg5": 300, "avg15": 900}[k.Parameter(1, "avg1")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 1, "avg1", "avg5", "avg15")
	}
	load, err := m.samples.mean(ctx, counterPath{`\System\Processor Queue Length`, true}, seconds)
	if err != nil {
		return item.Value{}, err
	}
	return loadPerCPU(k, load, cpuCount)
}

// memoryStatus is MEMORYSTATUSEX. Windows counts the committed memory as a page file: RAM and page files together.
type memoryStatus struct {
	size, load                                                                                    uint32
	totalPhysical, freePhysical, totalPageFile, freePageFile, totalVirtual, freeVirtual, extended uint64
}

// readMemoryStatus returns the sizes of memory and page file.
func readMemoryStatus() (s memoryStatus, err error) {
	s.size = uint32(unsafe.Sizeof(s))
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return s, err
	}
	return s, nil
}

// memorySize collects the item vm.memory.size[MODE], an amount of memory in bytes. The mode is total, available and so
// on.
func memorySize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	s, err := readMemoryStatus()
	if err != nil {
		return item.Value{}, err
	}
	var p struct { // PERFORMANCE_INFORMATION
		size                                                                                                uint32
		commit, commitLimit, commitPeak, total, available, cache, kernel, kernelPaged, kernelNonpaged, page uintptr
		handles, processes, threads                                                                         uint32
	}
	p.size = uint32(unsafe.Sizeof(p))
	if ok, _, err := getPerformanceInfo.Call(uintptr(unsafe.Pointer(&p)), uintptr(p.size)); ok == 0 {
		return item.Value{}, err
	}
	total, free := float64(s.totalPhysical), float64(s.freePhysical)
	return selectMemory(k, total, []memoryAmount{
		{"total", total}, {"free", free}, {"available", free}, {"used", total - free}, {"cached", float64(p.cache) * float64(p.page)},
	}, "available", "used")
}

// virtualMemorySize collects the item vm.vmemory.size[MODE], an amount of memory and page files together.
func virtualMemorySize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	s, err := readMemoryStatus()
	if err != nil {
		return item.Value{}, err
	}
	total, free := float64(s.totalPageFile), float64(s.freePageFile)
	return selectMemory(k, total, []memoryAmount{{"available", free}, {"total", total}, {"used", total - free}}, "available", "used")
}

// swapSize collects the item system.swap.size[,MODE], an amount of the page files such as free or used. As in Zabbix, it
// is the committed memory without the RAM, so that it may be off by a part of the RAM.
func swapSize(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	s, err := readMemoryStatus()
	if err != nil {
		return item.Value{}, err
	}
	total := max(float64(s.totalPageFile)-float64(s.totalPhysical), 0)
	return selectSwap(k, total, min(max(float64(s.freePageFile)-float64(s.freePhysical), 0), total))
}
