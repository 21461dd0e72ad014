package collect

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"github.com/muster-fleet/muster/internal/item"
)

// windowsHostname collects the item system.hostname[netbios|host|shorthost,none|lower].
func windowsHostname(ctx context.Context, m *machine, k *Key) (item.Value, error) {
	if k.Parameter(0, "netbios") != "netbios" {
		return hostname(ctx, m, k)
	}
	name := make([]uint16, 256)
	size := uint32(len(name))
	if err := windows.GetComputerName(&name[0], &size); err != nil {
		return item.Value{}, err
	}
	return hostname(ctx, &machine{host: windows.UTF16ToString(name)}, &Key{Name: k.Name, Parameters: []string{"", k.Parameter(1, "")}})
}

// uptime collects the item system.uptime, the seconds since the machine's start.
func uptime(context.Context, *machine, *Key) (item.Value, error) {
	return item.FromUnsigned(uint64(windows.DurationSinceBoot().Seconds())), nil
}

// machineArchitecture returns the architecture of the machine, in the words of Zabbix.
func machineArchitecture() (string, error) {
	if name, ok := map[string]string{"amd64": "x64", "386": "x86"}[runtime.GOARCH]; ok {
		return name, nil
	}
	return runtime.GOARCH, nil
}

// windowsRelease returns the name of the edition of Windows, and its version with the build.
func windowsRelease() (edition, version string, err error) {
	v := windows.RtlGetVersion()
	build := fmt.Sprint(v.BuildNumber)
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows NT\CurrentVersion`, registry.QUERY_VALUE)
	if err != nil {
		return "", "", err
	}
	defer k.Close()
	if edition, _, err = k.GetStringValue("ProductName"); err != nil {
		return "", "", err
	}
	if v.BuildNumber >= 22000 && v.ProductType == 1 { // the registry of Windows 11 says Windows 10
		edition = strings.Replace(edition, "Windows 10", "Windows 11", 1)
	}
	if revision, _, err := k.GetIntegerValue("UBR"); err == nil {
		build += fmt.Sprintf(".%d", revision)
	}
	return edition, fmt.Sprintf("%d.%d.%s", v.MajorVersion, v.MinorVersion, build), nil
}

// operatingSystem collects the item system.sw.os[full|short|name], the name and version of the operating system.
func operatingSystem(_ context.Context, _ *machine, k *Key) (item.Value, error) {
	edition, version, err := windowsRelease()
	if err != nil {
		return item.Value{}, err
	}
	arch, err := machineArchitecture()
	switch k.Parameter(0, "full") {
	case "name":
		return item.FromText(edition), err
	case "short":
		return item.FromText(edition + " " + version), err
	case "full":
		return item.FromText(fmt.Sprintf("%s %s %s", edition, version, arch)), err
	}
	return item.Value{}, errUnknownMode(k, 0, "full", "short", "name")
}

// uname collects the item system.uname, the name and version of the system, the host and the architecture.
func uname(_ context.Context, m *machine, _ *Key) (item.Value, error) {
	edition, version, err := windowsRelease()
	if err != nil {
		return item.Value{}, err
	}
	arch, err := machineArchitecture()
	return item.FromText(fmt.Sprintf("Windows %s %s %s %s", m.host, version, edition, arch)), err
}
