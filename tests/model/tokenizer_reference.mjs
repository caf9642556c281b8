// Token ids from an independent implementation: node tokenizer_reference.mjs LIBRARY TOKENIZER_JSON
// TEXTS IDS LIBRARY is the folder of npm's @huggingface/tokenizers, TEXTS a JSON list of documents;
// IDS is written, a JSON list of lists.
import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const [library, file, texts, ids] = process.argv.slice(2);
const main = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8')).main;
const {Tokenizer} = await import(pathToFileURL(join(library, main)));
const tokenizer = new Tokenizer(JSON.parse(readFileSync(file, 'utf8')), {});
const documents = JSON.parse(readFileSync(texts, 'utf8'));
writeFileSync(ids, JSON.stringify(documents.map((text) => tokenizer.encode(text).ids)));
