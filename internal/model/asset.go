package model

import (
	"encoding/hex"
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
	return sum, Errorf(Invalid, "%q is no SHA-512: want 128 of 0-9 and a-f", Shorten(text)).WithHint("sha512sum FILE; muster asset add NAME FILE writes it by itself")
}

// Matches says whether the archive is for a machine of these facts.
func (b *AssetBuild) Matches(facts map[string]string) bool {
	is := func(want, fact string) bool { return want == "" || want == facts[fact] }
	version := facts["distributionVersion"]
	return is(b.OS, "os") && is(b.Arch, "arch") && is(b.Distribution, "distribution") &&
		(is(b.DistributionVersion, "distributionVersion") || strings.HasPrefix(version, b.DistributionVersion+"."))
}

// Platform says in words which machines the archive is for.
func (b *AssetBuild) Platform() string {
	text := strings.Join(strings.Fields(b.OS+" "+b.Arch+" "+b.Distribution+" "+b.DistributionVersion), " ")
	if text == "" {
		return "any machine"
	}
	return text
}
