"""A CycloneDX bill of materials of one locked environment on one platform."""

from __future__ import annotations

import uuid

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from smforge import __version__
from smforge.locks.read import Package


def sbom(environment: str, platform: str, packages: list[Package]) -> str:
    """The bill as CycloneDX 1.6 JSON; the same lock gives the same bytes."""
    components = {package.name: _component(package) for package in packages}
    root = Component(
        name=f"smforge-{environment}", version=__version__, type=ComponentType.APPLICATION,
        bom_ref=f"smforge-{environment}-{platform}",
    )  # fmt: skip
    bom = Bom(metadata=BomMetaData(component=root), components=components.values())
    keys = "\n".join(sorted(package.key for package in packages))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{environment} {platform}\n{keys}")
    bom.metadata.timestamp = None  # the same lock, the same bytes; the format lets it be absent
    bom.register_dependency(root, components.values())
    for package in packages:
        needed = {name for name, _ in package.depends if name in components}
        bom.register_dependency(components[package.name], [components[n] for n in sorted(needed)])
    return str(JsonV1Dot6(bom).output_as_string(indent=2)) + "\n"


def _component(package: Package) -> Component:
    record = package.record
    licence = package.entry.get("license")
    component = Component(
        name=package.name,
        version=str(record.version),
        bom_ref=f"{package.name}-{record.version}-{record.build}",
        purl=_purl(package),
        licenses=[LicenseFactory().make_from_string(licence)] if licence else (),
    )
    for algorithm, name in ((HashAlgorithm.SHA_256, "sha256"), (HashAlgorithm.MD5, "md5")):
        if name in package.entry:
            component.hashes.add(HashType(alg=algorithm, content=package.entry[name]))
    if package.url:
        reference = ExternalReference(type=ExternalReferenceType.DISTRIBUTION,
                                      url=XsUri(package.url))  # fmt: skip
        component.external_references.add(reference)
    else:
        component.properties.add(Property(name="smforge:recipe", value=package.path))
    return component


def _purl(package: Package) -> PackageURL:
    """pkg:conda, with the channel for what a channel has."""
    record = package.record
    qualifiers = {"build": str(record.build), "subdir": record.subdir}
    if package.url:
        qualifiers["channel"] = package.url.split("/")[-3]
        qualifiers["type"] = "conda" if package.url.endswith(".conda") else "tar.bz2"
    return PackageURL("conda", None, package.name, str(record.version), qualifiers)
