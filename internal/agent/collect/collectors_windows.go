package collect

// measuresOfSystem returns the functions that measure the keys of Windows, by the names of the keys.
func measuresOfSystem() map[string]measureFunc {
	return map[string]measureFunc{
		"net.if.discovery":           discoverInterfaces,
		"net.if.in":                  networkTraffic(true, false),
		"net.if.list":                listInterfaces,
		"net.if.out":                 networkTraffic(false, true),
		"net.if.total":               networkTraffic(true, true),
		"net.tcp.listen":             socketListens(tcpSockets),
		"net.udp.listen":             socketListens(udpSockets),
		"perf_counter":               performanceCounter(false),
		"perf_counter_en":            performanceCounter(true),
		"perf_instance.discovery":    performanceInstances(false),
		"perf_instance_en.discovery": performanceInstances(true),
		"proc.num":                   processNumber,
		"proc_info":                  processInformation,
		"registry.data":              registryData,
		"registry.get":               registryEntries,
		"service.discovery":          discoverServices,
		"service.info":               serviceInformation,
		"services":                   serviceNames,
		"system.cpu.discovery":       discoverCPUs,
		"system.cpu.load":            cpuLoad,
		"system.cpu.num":             cpuNumber,
		"system.cpu.util":            cpuUtil,
		"system.hostname":            windowsHostname,
		"system.sw.os":               operatingSystem,
		"system.swap.size":           swapSize,
		"system.uname":               uname,
		"system.uptime":              uptime,
		"vfs.fs.discovery":           discoverFileSystems,
		"vfs.fs.get":                 fileSystems,
		"vm.memory.size":             memorySize,
		"vm.vmemory.size":            virtualMemorySize,
	}
}
