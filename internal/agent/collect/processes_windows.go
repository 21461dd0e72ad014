package collect

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/muster-fleet/muster/internal/item"
)

// processes calls the function `each` with the data of every process with a name. Without a name all count. Windows
// compares names without case.
func processes(name string, each func(p *windows.SYSTEM_PROCESS_INFORMATION)) error {
	size := uint32(256 << 10)
	for {
		data := make([]uint64, size/8) // aligned as the kernel asks
		err := windows.NtQuerySystemInformation(windows.SystemProcessInformation, unsafe.Pointer(&data[0]), size, &size)
		if err == windows.STATUS_INFO_LENGTH_MISMATCH {
			size = (size + 64<<10) &^ 7 // more may start meanwhile
			continue
		}
		if err != nil {
			return err
		}
		for at := uintptr(0); ; {
			p := (*windows.SYSTEM_PROCESS_INFORMATION)(unsafe.Add(unsafe.Pointer(&data[0]), at))
			if name == "" || strings.EqualFold(name, p.ImageName.String()) {
				each(p)
			}
			if p.NextEntryOffset == 0 {
				return nil
			}
			at += uintptr(p.NextEntryOffset)
		}
	}
}

// userOfProcess returns the name of the user that a process belongs to, without the domain. It is empty if the agent may
// not know it.
func userOfProcess(pid uintptr) string {
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(process)
	var token windows.Token
	if windows.OpenProcessToken(process, windows.TOKEN_QUERY, &token) != nil {
		return ""
	}
	defer token.Close()
	user, err := token.GetTokenUser()
	if err != nil {
		return ""
	}
	account, _, _, err := user.User.Sid.LookupAccount("")
	if err != nil {
		return ""
	}
	return account
}

// processNumber collects the item proc.num[NAME,USER], the number of matching processes.
func processNumber(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	if k.Parameter(2, "all") != "all" || k.Parameter(3, "") != "" {
		return item.Value{}, fmt.Errorf("%s: on Windows the key has only the parameters name and user", k.Name)
	}
	user, count := k.Parameter(1, ""), uint64(0)
	err := processes(k.Parameter(0, ""), func(p *windows.SYSTEM_PROCESS_INFORMATION) {
		if user == "" || strings.EqualFold(user, userOfProcess(p.UniqueProcessID)) {
			count++
		}
	})
	return item.FromUnsigned(count), err
}

// guiResources returns the number of GDI objects (0) or USER objects (1) of a process. A Windows without windows has none.
func guiResources(p *windows.SYSTEM_PROCESS_INFORMATION, kind uintptr) float64 {
	if guiResourcesOfProcess.Find() != nil {
		return 0
	}
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(p.UniqueProcessID))
	if err != nil {
		return 0
	}
	defer windows.CloseHandle(process)
	n, _, _ := guiResourcesOfProcess.Call(uintptr(process), kind)
	return float64(n)
}

// processAttribute returns an attribute of a process for proc_info. Memory is in KiB, times in milliseconds.
func processAttribute(p *windows.SYSTEM_PROCESS_INFORMATION, name string) (value float64, ok bool) {
	switch name {
	case "vmsize":
		return float64(p.PagefileUsage) / 1024, true
	case "wkset":
		return float64(p.WorkingSetSize) / 1024, true
	case "pf":
		return float64(p.PageFaultCount), true
	case "ktime":
		return float64(p.KernelTime / 10_000), true
	case "utime":
		return float64(p.UserTime / 10_000), true
	case "gdiobj":
		return guiResources(p, 0), true
	case "userobj":
		return guiResources(p, 1), true
	case "io_read_b":
		return float64(p.ReadTransferCount), true
	case "io_read_op":
		return float64(p.ReadOperationCount), true
	case "io_write_b":
		return float64(p.WriteTransferCount), true
	case "io_write_op":
		return float64(p.WriteOperationCount), true
	case "io_other_b":
		return float64(p.OtherTransferCount), true
	case "io_other_op":
		return float64(p.OtherOperationCount), true
	}
	return 0, false
}

// processInformation collects the item proc_info[NAME,ATTRIBUTE,min|max|avg|sum] of all processes with a name. Without
// such a process the value is 0.
func processInformation(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	name, attribute := k.Parameter(0, ""), k.Parameter(1, "vmsize")
	if name == "" {
		return item.Value{}, fmt.Errorf("%s: the name of a process is missing; write for example %s[svchost.exe]", k.Name, k.Name)
	}
	if _, ok := processAttribute(&windows.SYSTEM_PROCESS_INFORMATION{}, attribute); !ok {
		return item.Value{}, errUnknownMode(k, 1, "vmsize", "wkset", "pf", "ktime", "utime", "gdiobj", "userobj", "io_read_b", "io_read_op", "io_write_b", "io_write_op", "io_other_b", "io_other_op")
	}
	least, most, sum, count := 0.0, 0.0, 0.0, 0.0
	err := processes(name, func(p *windows.SYSTEM_PROCESS_INFORMATION) {
		value, _ := processAttribute(p, attribute)
		if least = min(least, value); count == 0 {
			least = value
		}
		most, sum, count = max(most, value), sum+value, count+1
	})
	if err != nil {
		return item.Value{}, err
	}
	value, ok := map[string]float64{"min": least, "max": most, "avg": sum / max(count, 1), "sum": sum}[k.Parameter(2, "avg")]
	if !ok {
		return item.Value{}, errUnknownMode(k, 2, "min", "max", "avg", "sum")
	}
	return item.FromFloat(value), nil
}
