package sensuimport

// families are the distributions of each platform_family, as Sensu's agents tell them.
var families = map[string][]string{
	"debian": {"debian", "ubuntu", "linuxmint", "raspbian"},
	"rhel":   {"redhat", "centos", "rocky", "almalinux", "oracle", "amazon", "scientific", "cloudlinux", "xenserver", "ibm_powerkvm", "enterpriseenterprise"},
	"suse":   {"sles", "sled", "suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "opensuse-tumbleweed-kubic", "caasp"},
	"fedora": {"fedora"}, "gentoo": {"gentoo"}, "slackware": {"slackware"}, "arch": {"arch"}, "exherbo": {"exherbo"},
	"alpine": {"alpine"}, "coreos": {"coreos"}, "solus": {"solus"},
}

// elsewhere are names that Sensu's agents have for a distribution and /etc/os-release, where
// our agents read it, has not.
var elsewhere = map[string]string{"redhat": "rhel", "oracle": "ol", "amazon": "amzn"}

// platform are the facts distribution of a platform: of Sensu's agents, and of ours.
func platform(of string) []string {
	if ours := elsewhere[of]; ours != "" {
		return []string{of, ours}
	}
	return []string{of}
}
