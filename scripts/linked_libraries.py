#!/usr/bin/python3
"""Lists the code of other projects in the one-file ddprun, from dpkg's data.

usage: scripts/linked_libraries.py BUILD_FOLDER OUTPUT_FOLDER

It takes the static libraries from the link line of ddprun, and the header-only libraries from the includes of its
sources. Then it finds the Debian package of each library, and writes:
    ddprun.spdx.json      an SPDX 2.3 document
    SOURCES               where the source of each package is, with the offer that the LGPL and the GPL ask for
    copyright/PACKAGE     Debian's copyright file of each package
    common-licenses/NAME  the licences of /usr/share/common-licenses that these files name
The maintainer who makes the offer is DDPRUN_MAINTAINER of the build. The date is SOURCE_DATE_EPOCH. Needs a build by
Ninja, with libraries of Debian's packages.
"""

import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import uuid

OWN = ("launcher/", "rendezvous/", "proto/")  # folders whose object files are in ddprun
SYSTEM = {"libc6-dev", "linux-libc-dev"}  # packages whose libraries are not linked in

# For each source package: the licence of the part that gets into ddprun, as its project declares it, in SPDX's spelling.
# Debian's copyright files use other names, and list the licences of all files of the source.
PUBLIC_DOMAIN = "LicenseRef-liblzma-public-domain"  # SPDX has no id for it
LICENCES = {
    "abseil": "Apache-2.0", "boost": "BSL-1.0", "bzip2": "bzip2-1.0.6", "c-ares": "MIT", "cli11": "BSD-3-Clause",
    "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later", "fmtlib": "MIT",
    "gcc-": "GPL-3.0-or-later WITH GCC-exception-3.1", "grpc": "Apache-2.0", "libzstd": "BSD-3-Clause OR GPL-2.0-only",
    "munge": "LGPL-3.0-or-later", "nlohmann-json3": "MIT", "openssl": "Apache-2.0", "protobuf": "BSD-3-Clause",
    "re2": "BSD-3-Clause", "spdlog": "MIT", "xxhash": "BSD-2-Clause", "yaml-cpp": "MIT", "zlib": "Zlib",
}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def archives(build):
    """The files lib*.a on the link line of ddprun that are not of this project."""
    words = shlex.split(output_of("ninja", "-C", build, "-t", "commands", "ddprun").splitlines()[-1])
    found = {word for word in words if word.startswith("/") and word.endswith(".a")}
    if "-static-libstdc++" in words:
        for name in ("libstdc++.a", "libgcc.a", "libgcc_eh.a"):
            found.add(output_of("g++", f"-print-file-name={name}").strip())
    if not found:
        sys.exit("linked_libraries.py: ddprun is linked with no static library: configure with -DDDPRUN_STATIC=ON")
    return {os.path.realpath(path) for path in found}


def headers(build):
    """The system headers that the sources of ddprun include."""
    found = set()
    own = False
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line and not line.startswith(" "):
            own = line.startswith(OWN)
        elif own and line.strip().startswith("/usr/include/"):
            found.add(os.path.realpath(line.strip()))
    return found


def packages_of(files):
    """The packages that have these files: {package}."""
    listing = output_of("dpkg-query", "--search", *sorted(files))
    return {name.split(":")[0].strip()
            for line in listing.splitlines() if not line.startswith("diversion ")
            for name in line.rsplit(": ", 1)[0].split(",")}


def facts_of(package):
    keys = ("Package", "Version", "Architecture", "source:Package", "source:Version")
    values = output_of("dpkg-query", "--show", "--showformat", "\t".join("${%s}" % key for key in keys) + "\n",
                       package).splitlines()[0].split("\t")
    return dict(zip(keys, values))


def copy_common_licences(output):
    """Copies the licences that the copyright files name by their path on Debian. Other systems lack this folder."""
    text = "\n".join(path.read_text(errors="replace") for path in pathlib.Path(output, "copyright").iterdir())
    pathlib.Path(output, "common-licenses").mkdir()
    for licence in pathlib.Path("/usr/share/common-licenses").iterdir():
        if re.search(rf"{re.escape(str(licence))}(?!-?\w|\.\d)", text):  # the name GPL must not match GPL-2
            shutil.copyfile(licence, pathlib.Path(output, "common-licenses", licence.name))


def licences_in(copyright_file):
    """The short names of licences in a machine-readable copyright file."""
    text = copyright_file.read_text(errors="replace")
    return sorted({match.strip() for match in re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)})


def declared(facts, static):
    """The licence as an SPDX expression. Ends the program if the package is linked in and its licence is not known."""
    source = facts["source:Package"]
    if source == "xz-utils":  # liblzma; it has a licence since 5.6
        old = tuple(map(int, facts["source:Version"].split(".")[:2])) < (5, 6)
        return PUBLIC_DOMAIN if old else "0BSD"
    found = LICENCES.get(re.sub(r"[0-9.]+$", "", source), LICENCES.get(source))
    if found is None and static:
        sys.exit(f"linked_libraries.py: {source} is linked into ddprun, and LICENCES does not have its licence")
    return found or "NOASSERTION"


def spdx_package(facts, licences, static):
    name, version = facts["Package"], facts["Version"]
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": declared(facts, static),
        "licenseComments": "Debian's copyright file names: " + "; ".join(licences or ["see copyright/" + name]),
        "copyrightText": "NOASSERTION",
        "sourceInfo": f"{facts['source:Package']} {facts['source:Version']}; "
                      + ("linked statically" if static else "headers only"),
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch={facts['Architecture']}"}],
    }


def cached(build, name):
    """A value of the build's CMakeCache.txt."""
    found = re.search(rf"^{name}:\w+=(.*)$", pathlib.Path(build, "CMakeCache.txt").read_text(), re.MULTILINE)
    if found is None:
        sys.exit(f"linked_libraries.py: {build}/CMakeCache.txt has no {name}")
    return found[1]


def main(build, output):
    static = packages_of(archives(build))
    every = sorted(static | packages_of(headers(build)) - SYSTEM)
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    version = cached(build, "CMAKE_PROJECT_VERSION")
    shutil.rmtree(output, ignore_errors=True)
    pathlib.Path(output, "copyright").mkdir(parents=True)

    packages, sources = [], {}
    for name in every:
        facts = facts_of(name)
        copied = pathlib.Path(output, "copyright", name)
        shutil.copyfile(pathlib.Path("/usr/share/doc", name, "copyright"), copied)
        packages.append(spdx_package(facts, licences_in(copied), name in static))
        sources.setdefault((facts["source:Package"], facts["source:Version"]), []).append(name)
    copy_common_licences(output)

    own = {"SPDXID": "SPDXRef-ddprun", "name": "ddprun", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
           "copyrightText": "NOASSERTION"}
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"ddprun-{version}",
        "documentNamespace": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([version, packages]))),
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: scripts/linked_libraries.py"]},
        "packages": [own, *packages],
        "hasExtractedLicensingInfos": [
            {"licenseId": PUBLIC_DOMAIN, "extractedText": "liblzma is in the public domain."}],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]},
            *({"spdxElementId": own["SPDXID"],
               "relationshipType": "STATIC_LINK" if package["name"] in static else "CONTAINS",
               "relatedSpdxElement": package["SPDXID"]} for package in packages)],
    }
    pathlib.Path(output, "ddprun.spdx.json").write_text(json.dumps(document, indent=1) + "\n")
    pathlib.Path(output, "SOURCES").write_text(sources_text(sources, cached(build, "DDPRUN_MAINTAINER")))
    check(document)
    print(f"linked_libraries.py: {len(static)} packages linked statically, {len(every) - len(static)} of headers only")


def check(document):
    """What validators of SPDX refuse: an id that is not one, is there twice, or is not defined."""
    ids = [document["SPDXID"], *(package["SPDXID"] for package in document["packages"])]
    wrong = [name for name in ids if not re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) or ids.count(name) > 1]
    for relation in document["relationships"]:
        wrong += {relation["spdxElementId"], relation["relatedSpdxElement"]} - set(ids)
    expressions = (*LICENCES.values(), "Apache-2.0 0BSD NOASSERTION", PUBLIC_DOMAIN)
    known = {word for text in expressions for word in text.split()}
    for package in document["packages"]:
        wrong += set(package["licenseDeclared"].split()) - known
    if wrong:
        sys.exit(f"linked_libraries.py: SPDX has no such ids: {', '.join(sorted(wrong))}")


def sources_text(sources, maintainer):
    rows = "".join(f"    {name} {version}    ({', '.join(packages)})\n"
                   for (name, version), packages in sorted(sources.items()))
    return f"""The program ddprun has code of these source packages of Debian in it, unchanged:

{rows}
Their licences are in the folder copyright beside this file. /usr/share/common-licenses, which these files
name, is a folder of Debian; the tarball and the container image of ddprun have its files in common-licenses
beside this file. elfutils (libdw, libelf) is used under the LGPL, version 3 or later.

The source of each, in exactly this version, is in Debian's archive, which keeps old versions too:
    apt-get source NAME=VERSION
To whoever has this program, its distributor gives the same source for three years, for no more than the
cost of passing it on: ask {maintainer}.

ddprun can be linked anew with another version of each: its own source is complete and under the Apache
License 2.0, and `scripts/package.sh` in it makes this package from what is installed.
"""


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
