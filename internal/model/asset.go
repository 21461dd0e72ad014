package model

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// AssetSpec is what commands of checks and handlers need and machines do not have: an archive
// with programs, kept by the server, fetched by the agents whose checks name it.
type AssetSpec struct {
	// One archive for each kind of machine: a node takes the first that is for it.
	Builds []AssetBuild `json:"builds"`
}

// AssetBuild is one archive (tar, plain or packed with gzip or bzip2, or zip) and the
// machines that it is for: those of which all that stands here is true.
type AssetBuild struct {
	// The archive's SHA-512, as sha512sum prints it. Archives come to the server by
	// muster asset add, or from url.
	SHA512 string `json:"sha512"`
	// Where the server fetches the archive if nobody uploads it; agents never go there.
	URL string `json:"url,omitempty"`
	// The kind of system, as the fact os: linux, windows; default any.
	OS string `json:"os,omitempty"`
	// The processor, as the fact arch: amd64, arm64; default any.
	Arch string `json:"arch,omitempty"`
	// As the fact distribution: debian, rhel; default any.
	Distribution string `json:"distribution,omitempty"`
	// As the fact distributionVersion, or as it begins: 9 is also 9.4. Default any.
	DistributionVersion string `json:"distributionVersion,omitempty"`
}

func (*AssetSpec) Kind() string { return "Asset" }

const (
	// MaxAssets is how many assets one check or handler may name, and MaxBuilds how many
	// archives one asset may have.
	MaxAssets = 16
	MaxBuilds = 64
	// MaxAssetBytes is how large an archive may be.
	MaxAssetBytes = 512 << 20
)

// ParseAssetSum reads a SHA-512 in hexadecimal digits.
func ParseAssetSum(text string) (sum [64]byte, err error) {
	if len(text) == 2*len(sum) {
		if _, err := hex.Decode(sum[:], []byte(text)); err == nil && strings.ToLower(text) == text {
			return sum, nil
		}
	}
	return sum, Errorf(Invalid, "%q is no SHA-512: want 128 of 0-9 and a-f", Brief(text)).WithHint("sha512sum FILE; muster asset add NAME FILE writes it by itself")
}

// Fits says whether the archive is for a machine of these facts.
func (b *AssetBuild) Fits(facts map[string]string) bool {
	is := func(want, fact string) bool { return want == "" || want == facts[fact] }
	version := facts["distributionVersion"]
	return is(b.OS, "os") && is(b.Arch, "arch") && is(b.Distribution, "distribution") &&
		(is(b.DistributionVersion, "distributionVersion") || strings.HasPrefix(version, b.DistributionVersion+"."))
}

// For says in words which machines the archive is for.
func (b *AssetBuild) For() string {
	text := strings.Join(strings.Fields(b.OS+" "+b.Arch+" "+b.Distribution+" "+b.DistributionVersion), " ")
	if text == "" {
		return "any machine"
	}
	return text
}

func (v *validator) asset(s *AssetSpec) {
	if len(s.Builds) == 0 {
		v.absent("spec.builds", "muster asset add NAME FILE --os linux --arch amd64 uploads one and writes it", "has no archive")
	}
	if len(s.Builds) > MaxBuilds {
		v.flaw("spec.builds", "", "more than %d", MaxBuilds)
		return
	}
	before := map[string]int{}
	for i := range s.Builds {
		b, at := &s.Builds[i], fmt.Sprintf("spec.builds[%d]", i)
		if b.SHA512 == "" {
			v.absent(at+".sha512", "sha512sum FILE", "missing")
		} else if _, err := ParseAssetSum(b.SHA512); err != nil {
			v.flaw(at+".sha512", "sha512sum FILE", "want 128 of 0-9 and a-f")
		}
		if u, err := url.Parse(b.URL); b.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(b.URL) > maxLine) {
			v.flaw(at+".url", "write https://…", "want the address of the archive")
		}
		if u, err := url.Parse(b.URL); err == nil && u.User != nil {
			v.flaw(at+".url", "fetch it yourself, and type muster asset add NAME FILE", "no password may stand here: whoever may look sees it")
		}
		v.hidden(at+".url", b.URL)
		for _, f := range []struct{ field, text string }{{"os", b.OS}, {"arch", b.Arch}, {"distribution", b.Distribution}, {"distributionVersion", b.DistributionVersion}} {
			if len(f.text) > maxText || hasControl(f.text) || strings.ContainsAny(f.text, " \t") {
				v.flaw(at+"."+f.field, "muster describe node NODE shows the facts", "want one word")
			}
		}
		if first, twice := before[b.For()]; twice {
			v.flaw(at, "say which machines it is for: os, arch, distribution, distributionVersion", "is never used: builds[%d] is for the same (%s)", first, b.For())
		} else {
			before[b.For()] = i
		}
	}
}

// assets are those that something names.
func (v *validator) assets(names []string) {
	if len(names) > MaxAssets {
		v.flaw("spec.assets", "", "more than %d", MaxAssets)
	}
	v.names("spec.assets", names, v.sharedName)
}

// commandsAssets are those that something names which may have no command.
func (v *validator) commandsAssets(names []string, c *Command, why string) {
	v.assets(names)
	if len(names) > 0 && c == nil {
		v.absent("spec.assets", "leave it out", "%s", why)
	}
}
