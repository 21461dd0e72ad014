package model

import (
	"encoding/hex"
	"strings"
)

// AssetSpec is an archive with programs that the commands of checks and handlers need. The server keeps it; the
// agents whose checks name it fetch it.
type AssetSpec struct {
	// One archive for each kind of machine. A node takes the first one that matches it.
	Builds []AssetBuild `json:"builds"`
}

// AssetBuild is one archive (zip, or tar, plain or packed with gzip or bzip2) for the machines that match all its
// conditions.
type AssetBuild struct {
	// The archive's SHA-512, as sha512sum prints it. Archives reach the server by muster asset add, or from url.
	SHA512 string `json:"sha512"`
	// Where the server fetches the archive if nobody uploads it. Agents never connect there.
	URL string `json:"url,omitempty"`
	// The operating system, compared with the fact os: linux, windows. Default: any.
	OS string `json:"os,omitempty"`
	// The processor, compared with the fact arch: amd64, arm64. Default: any.
	Arch string `json:"arch,omitempty"`
	// Compared with the fact distribution: debian, rhel. Default: any.
	Distribution string `json:"distribution,omitempty"`
	// Compared with the fact distributionVersion or its beginning: 9 matches 9.4, too. Default: any.
	DistributionVersion string `json:"distributionVersion,omitempty"`
}

func (*AssetSpec) Kind() string { return "Asset" }

const (
	// MaxAssets bounds the assets of one check or handler, MaxBuilds the archives of one asset.
	MaxAssets = 16
	MaxBuilds = 64
	// MaxAssetBytes bounds one archive.
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

// Matches reports whether the archive is for a machine with these facts.
func (b *AssetBuild) Matches(facts map[string]string) bool {
	is := func(want, fact string) bool { return want == "" || want == facts[fact] }
	version := facts["distributionVersion"]
	return is(b.OS, "os") && is(b.Arch, "arch") && is(b.Distribution, "distribution") &&
		(is(b.DistributionVersion, "distributionVersion") || strings.HasPrefix(version, b.DistributionVersion+"."))
}

// Platform describes the machines that the archive is for.
func (b *AssetBuild) Platform() string {
	text := strings.Join(strings.Fields(b.OS+" "+b.Arch+" "+b.Distribution+" "+b.DistributionVersion), " ")
	if text == "" {
		return "any machine"
	}
	return text
}
