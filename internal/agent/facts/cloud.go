package facts

import (
	"encoding/json"
	"strings"
)

// cloud says whose machine this is. cloud-init knows best: it asked at boot. Without it
// the firmware names the provider, and of some also the instance.
func (t tree) cloud(f map[string]string) {
	if c, ok := decodeInstance([]byte(t.text("run/cloud-init/instance-data.json"))); ok {
		f[Cloud], f[CloudInstance], f[CloudRegion], f[CloudZone], f[CloudType] = c.provider, c.instance, c.region, c.zone, c.size
	}
	provider, instance, size := t.firmwareCloud()
	if f[Cloud] == "" {
		f[Cloud] = provider
	}
	if f[Cloud] == provider { // cloud-init of another provider speaks of another machine
		if f[CloudInstance] == "" {
			f[CloudInstance] = instance
		}
		if f[CloudType] == "" {
			f[CloudType] = size
		}
	}
}

// firmwareCloud reads the entries of providers in the DMI tables. Serial numbers and UUIDs
// are readable for root only: without it there is no instance.
func (t tree) firmwareCloud() (provider, instance, size string) {
	vendor, product, chassis := t.dmi("sys_vendor"), t.dmi("product_name"), t.dmi("chassis_asset_tag")
	uuid := strings.ToLower(t.dmi("product_uuid"))
	switch {
	case vendor == "Amazon EC2", strings.Contains(t.dmi("bios_version"), "amazon"), strings.HasPrefix(strings.ToLower(t.line("sys/hypervisor/uuid")), "ec2"):
		if tag := t.dmi("board_asset_tag"); strings.HasPrefix(tag, "i-") {
			instance = tag
		}
		if vendor == "Amazon EC2" {
			size = product
		}
		return "aws", instance, size
	case product == "Google Compute Engine":
		return "gcp", "", ""
	case chassis == "7783-7084-3265-9085-8269-3286-77": // Azure, in its own cipher
		return "azure", "", ""
	case vendor == "DigitalOcean":
		return "digitalocean", t.dmi("product_serial"), ""
	case vendor == "Hetzner":
		return "hetzner", t.dmi("product_serial"), ""
	case vendor == "Vultr":
		return "vultr", t.dmi("product_serial"), ""
	case vendor == "UpCloud":
		return "upcloud", t.dmi("product_serial"), ""
	case vendor == "Scaleway":
		return "scaleway", "", ""
	case vendor == "Alibaba Cloud":
		return "alibaba", t.dmi("product_serial"), ""
	case vendor == "Exoscale", strings.HasPrefix(product, "Exoscale"):
		return "exoscale", uuid, ""
	case vendor == "Akamai", vendor == "Linode":
		return "akamai", t.dmi("product_serial"), ""
	case chassis == "OracleCloud.com":
		return "oracle", "", ""
	case strings.HasPrefix(product, "OpenStack"), strings.HasPrefix(chassis, "OpenStack"), strings.HasPrefix(vendor, "OpenStack"):
		return "openstack", uuid, ""
	}
	return "", "", ""
}

type instance struct{ provider, instance, region, zone, size string }

// called are cloud-init's names of providers that are known better by another.
var called = [...][2]string{{"gce", "gcp"}, {"aliyun", "alibaba"}, {"ec2", "aws"}}

// decodeInstance reads cloud-init's account of the instance. Where there is no cloud (a
// disk image made by hand: nocloud, none) nothing is said.
func decodeInstance(data []byte) (c instance, ok bool) {
	var said struct {
		V1 struct {
			Cloud    string `json:"cloud_name"`
			Platform string `json:"platform"`
			Instance string `json:"instance_id"`
			Region   string `json:"region"`
			Zone     string `json:"availability_zone"`
		} `json:"v1"`
		DS struct {
			Data struct {
				Type string `json:"instance-type"` // Amazon's
			} `json:"meta_data"`
		} `json:"ds"`
	}
	// One member of another shape than expected costs that member, not the rest.
	err := json.Unmarshal(data, &said)
	if _, shape := err.(*json.UnmarshalTypeError); err != nil && !shape {
		return instance{}, false
	}
	v := said.V1
	for _, pair := range called {
		if v.Cloud == pair[0] {
			v.Cloud = pair[1]
		}
	}
	switch strings.ToLower(v.Cloud) {
	case "", "none", "nocloud", "unknown", "lxd", "configdrive", "vmware", "ovf":
		return instance{}, false
	}
	return instance{strings.ToLower(v.Cloud), v.Instance, v.Region, v.Zone, said.DS.Data.Type}, true
}
