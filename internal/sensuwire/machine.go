package sensuwire

// Machine is the entity of an agent.
type Machine struct {
	Name, Namespace   string
	Class             string
	Labels            map[string]string
	Annotations       map[string]string
	Subscriptions     []string
	Deregister        bool
	Deregistration    string // handler of the deregistration
	KeepaliveHandlers []string
	AgentVersion      string
	System            System
}

// System describes the operating system and hardware of a machine.
type System struct {
	Hostname, OS, Platform, PlatformFamily, PlatformVersion, Arch string
	VMSystem, CloudProvider                                       string
	Addresses                                                     []string // with the length of their networks
}

var machineFields = []field[Machine]{
	textField(1, "entity_class", func(m *Machine) *string { return &m.Class }),
	{tagOf(3, lengths), "system", func(m *Machine, v value) bool { return readFields(v, systemFields, &m.System) }},
	textsField(4, "subscriptions", func(m *Machine) *[]string { return &m.Subscriptions }),
	{tagOf(6, varint), "deregister", func(m *Machine, v value) bool { m.Deregister = v.bool(); return true }},
	{tagOf(7, lengths), "deregistration", func(m *Machine, v value) bool { return readFields(v, deregistrationFields, m) }},
	{tagOf(14, lengths), "metadata", func(m *Machine, v value) bool { return readFields(v, machineMetaFields, m) }},
	textField(15, "sensu_agent_version", func(m *Machine) *string { return &m.AgentVersion }),
	textsField(16, "keepalive_handlers", func(m *Machine) *[]string { return &m.KeepaliveHandlers }),
}

var deregistrationFields = []field[Machine]{textField(1, "handler", func(m *Machine) *string { return &m.Deregistration })}

var machineMetaFields = []field[Machine]{
	textField(1, "name", func(m *Machine) *string { return &m.Name }),
	textField(2, "namespace", func(m *Machine) *string { return &m.Namespace }),
	pairsField(3, "labels", func(m *Machine) *map[string]string { return &m.Labels }),
	pairsField(4, "annotations", func(m *Machine) *map[string]string { return &m.Annotations }),
}

var systemFields = []field[System]{
	textField(1, "hostname", func(y *System) *string { return &y.Hostname }),
	textField(2, "os", func(y *System) *string { return &y.OS }),
	textField(3, "platform", func(y *System) *string { return &y.Platform }),
	textField(4, "platform_family", func(y *System) *string { return &y.PlatformFamily }),
	textField(5, "platform_version", func(y *System) *string { return &y.PlatformVersion }),
	{tagOf(6, lengths), "network", func(y *System, v value) bool { return readFields(v, networkFields, y) }},
	textField(7, "arch", func(y *System) *string { return &y.Arch }),
	textField(10, "vm_system", func(y *System) *string { return &y.VMSystem }),
	textField(12, "cloud_provider", func(y *System) *string { return &y.CloudProvider }),
}

var networkFields = []field[System]{
	{tagOf(1, lengths), "interfaces", func(y *System, v value) bool {
		return v.forEach(func(v value) bool { return readFields(v, interfaceFields, y) })
	}},
}

var interfaceFields = []field[System]{textsField(3, "addresses", func(y *System) *[]string { return &y.Addresses })}

// ReadMachine decodes the entity of an event.
func (s *Received) ReadMachine() (*Machine, error) {
	m := new(Machine)
	if err := s.codec.decode("an entity", s.Machine, func(v value) bool { return readFields(v, machineFields, m) }); err != nil {
		return nil, err
	}
	return m, nil
}
