// Run by the MongoDB image on the first start. Secretary needs its own database only.
db.getSiblingDB('secretary').createUser({
  user: 'secretary',
  pwd: process.env.MONGO_PASSWORD,
  roles: [{ role: 'readWrite', db: 'secretary' }],
});
