// Validates manifests against their schemas, for check_manifests.sh: node check_manifests.mjs
// JOBSET_SCHEMA MANIFEST...
import { readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import Ajv from "ajv";
import { validate as service } from "kubernetes-models/_schemas/IoK8sApiCoreV1Service";
import { validate as configMap } from "kubernetes-models/_schemas/IoK8sApiCoreV1ConfigMap";
import { validate as secret } from "kubernetes-models/_schemas/IoK8sApiCoreV1Secret";
import { validate as budget } from "kubernetes-models/_schemas/IoK8sApiPolicyV1PodDisruptionBudget";
import { validate as job } from "kubernetes-models/_schemas/IoK8sApiBatchV1Job";
import { validate as jobSpec } from "kubernetes-models/_schemas/IoK8sApiBatchV1JobSpec";

const kinds = { Service: service, ConfigMap: configMap, Secret: secret, PodDisruptionBudget: budget, Job: job };
const [schema, ...files] = process.argv.slice(2);
const jobSet = new Ajv({ allErrors: true }).compile(JSON.parse(readFileSync(schema, "utf8")));
let failed = false;

// The schemas allow fields that they do not have. Validators read each field that they know, so a field
// that nobody has read is misspelt.
function watched(value, path, unread) {
  if (value === null || typeof value !== "object") return value;
  const children = new Map();
  if (!Array.isArray(value)) for (const key of Object.keys(value)) unread.add(`${path}/${key}`);
  return new Proxy(value, {
    get(target, key) {
      unread.delete(`${path}/${String(key)}`);
      if (!Object.hasOwn(target, key)) return target[key];
      if (!children.has(key)) children.set(key, watched(target[key], `${path}/${String(key)}`, unread));
      return children.get(key);
    },
  });
}

function check(file, what, validate, object) {
  const unread = new Set();
  if (!validate(watched(object, "", unread))) {
    failed = true;
    for (const error of validate.errors) {
      console.error(`${file}: ${what}: ${error.instancePath} ${error.message ?? JSON.stringify(error.params)}`);
    }
  }
  for (const path of unread) {
    failed = true;
    console.error(`${file}: ${what}: ${path}: no such field`);
  }
}

for (const file of files) {
  // As Kubernetes does, which reads YAML 1.1.
  const documents = parseAllDocuments(readFileSync(file, "utf8"), { version: "1.1" });
  for (const document of documents) {
    for (const error of document.errors) {
      failed = true;
      console.error(`${file}: ${error.message}`);
    }
    const object = document.toJS();
    if (object === null) continue;
    if (object.kind === "JobSet") {
      if (!jobSet(object)) {
        failed = true;
        for (const error of jobSet.errors) console.error(`${file}: JobSet: ${error.instancePath} ${error.message}`);
      }
      for (const group of object.spec.replicatedJobs) check(file, "JobSet's Job", jobSpec, group.template.spec);
    } else if (object.kind in kinds) {
      check(file, object.kind, kinds[object.kind], object);
    } else {
      failed = true;
      console.error(`${file}: a ${object.kind} is not expected`);
    }
  }
  console.log(`${file}: ${documents.length} objects`);
}
process.exit(failed ? 1 : 0);
